// SPDX-License-Identifier: Apache-2.0
// Fills a table with the kernels of one Vec16 type.
#pragma once

#include "ops/cpu/adamw_kernel.h"
#include "ops/cpu/compression_kernels.h"
#include "ops/cpu/elementwise_kernels.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/norm_kernels.h"
#include "ops/cpu/pack_kernels.h"
#include "ops/cpu/rope_kernels.h"
#include "ops/cpu/softmax_kernels.h"
#include "ops/cpu/swiglu_kernels.h"

namespace litespark::cpu {

template <class Vec, op::WeightForm kForm>
constexpr void fill_adamw(KernelTable& table) {
  auto& row = table.adamw[static_cast<int>(kForm)];
  row[0][0] = adamw<Vec, kForm, float, float>;
  row[0][1] = adamw<Vec, kForm, float, bf16>;
  row[1][0] = adamw<Vec, kForm, bf16, float>;
  row[1][1] = adamw<Vec, kForm, bf16, bf16>;
}

template <class Vec>
constexpr KernelTable make_kernel_table() {
  KernelTable table = {
      .convert = {{convert_elements<Vec, float, float>, convert_elements<Vec, float, bf16>},
                  {convert_elements<Vec, bf16, float>, convert_elements<Vec, bf16, bf16>}},
      .add = {add_elements<Vec, float>, add_elements<Vec, bf16>},
      .norm_forward = {{norm_forward<Vec, float, float>, norm_forward<Vec, float, bf16>},
                       {norm_forward<Vec, bf16, float>, norm_forward<Vec, bf16, bf16>}},
      .norm_backward = {{norm_backward<Vec, float, float>, norm_backward<Vec, float, bf16>},
                        {norm_backward<Vec, bf16, float>, norm_backward<Vec, bf16, bf16>}},
      .swiglu_forward = {swiglu_forward<Vec, float>, swiglu_forward<Vec, bf16>},
      .swiglu_backward = {swiglu_backward<Vec, float>, swiglu_backward<Vec, bf16>},
      .rope = {rope<Vec, float>, rope<Vec, bf16>},
      .widen = widen<Vec>,
      .softmax_statistics = {softmax_statistics<Vec, float>, softmax_statistics<Vec, bf16>},
      .softmax_gradient = {softmax_gradient<Vec, float>, softmax_gradient<Vec, bf16>},
      .square_sum = {square_sum<Vec, float>, square_sum<Vec, bf16>},
      .pack = {{pack_rows_f32<Vec>, pack_rows_bf16<Vec>}, {pack_columns_f32<Vec>, pack_columns_bf16<Vec>}},
      .compress = compress<Vec>,
      .add_message = add_message<Vec>,
      .adamw = {},
  };
  fill_adamw<Vec, op::WeightForm::kMaster>(table);
  fill_adamw<Vec, op::WeightForm::kSplit>(table);
  fill_adamw<Vec, op::WeightForm::kStochastic>(table);
  return table;
}

}  // namespace litespark::cpu
