// SPDX-License-Identifier: Apache-2.0
// The three matrix products of a linear layer y = x w^T + b, the bias gradient, and the packing of weights into the
// layout that a backend's matmul likes best.
#pragma once

#include <cstdint>
#include <string_view>

namespace litespark::op {

/// y = x w^T + bias. y [N, O], x [N, I] compute dtype; weight [O, I] compute dtype or absent when `packed` is there;
/// packed: opaque bytes made by PackWeight in the kForward form; bias [O] f32 optional; scratch: bytes the backend asks
/// for, may be absent. `y` is overwritten.
template <class T>
struct MatmulForward {
  static constexpr std::string_view kName = "matmul_forward";
  T y, x, weight, packed, bias, scratch;
  int64_t in_features = 0;   ///< I
  int64_t out_features = 0;  ///< O

  template <class F>
  auto map(F&& f) const {
    return MatmulForward<decltype(f.in("x", x))>{.y = f.out("y", y),
                                                 .x = f.in("x", x),
                                                 .weight = f.in("weight", weight),
                                                 .packed = f.in("packed", packed),
                                                 .bias = f.in("bias", bias),
                                                 .scratch = f.out("scratch", scratch),
                                                 .in_features = in_features,
                                                 .out_features = out_features};
  }
};

/// dx (+)= dy w. dx [N, I], dy [N, O], weight [O, I] or packed in the kBackward form.
template <class T>
struct MatmulBackwardInput {
  static constexpr std::string_view kName = "matmul_backward_input";
  T dx, dy, weight, packed, scratch;
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool accumulate = false;

  template <class F>
  auto map(F&& f) const {
    return MatmulBackwardInput<decltype(f.in("dy", dy))>{.dx = accumulate ? f.inout("dx", dx) : f.out("dx", dx),
                                                         .dy = f.in("dy", dy),
                                                         .weight = f.in("weight", weight),
                                                         .packed = f.in("packed", packed),
                                                         .scratch = f.out("scratch", scratch),
                                                         .in_features = in_features,
                                                         .out_features = out_features,
                                                         .accumulate = accumulate};
  }
};

/// dweight (+)= dy^T x. dweight [O, I] f32, or bf16 when the inputs are and nothing is accumulated: the sum is f32 and
/// rounded once; dy [N, O], x [N, I] compute dtype. Tokens are summed in a fixed order.
template <class T>
struct MatmulBackwardWeight {
  static constexpr std::string_view kName = "matmul_backward_weight";
  T dweight, dy, x, scratch;
  bool accumulate = false;

  template <class F>
  auto map(F&& f) const {
    return MatmulBackwardWeight<decltype(f.in("dy", dy))>{
        .dweight = accumulate ? f.inout("dweight", dweight) : f.out("dweight", dweight),
        .dy = f.in("dy", dy),
        .x = f.in("x", x),
        .scratch = f.out("scratch", scratch),
        .accumulate = accumulate};
  }
};

/// dbias (+)= column sums of dy. dbias [O] f32, dy [N, O]; partials [ceil(N / kBiasRowsPerBlock), O] f32 scratch.
template <class T>
struct BiasBackward {
  static constexpr std::string_view kName = "bias_backward";
  T dbias, dy, partials;
  bool accumulate = false;

  template <class F>
  auto map(F&& f) const {
    return BiasBackward<decltype(f.in("dy", dy))>{.dbias = accumulate ? f.inout("dbias", dbias) : f.out("dbias", dbias),
                                                  .dy = f.in("dy", dy),
                                                  .partials = f.out("partials", partials),
                                                  .accumulate = accumulate};
  }
};

inline constexpr int kBiasRowsPerBlock = 256;

enum class PackForm : uint8_t { kForward, kBackward };

/// packed = weight, converted to the compute dtype and laid out for MatmulForward or MatmulBackwardInput.
/// The layout depends on [O, I], form and dtype alone, so that matmuls of any number of rows read the same copy.
/// weight [O, I] f32, or bf16 with an optional remainder [O, I] u16, the low half of the f32 weight
/// (core/bf16_rounding.h), and scratch [O, I] f32; packed [bytes] u8 as BackendSizes says.
template <class T>
struct PackWeight {
  static constexpr std::string_view kName = "pack_weight";
  T packed, weight, remainder, scratch;
  PackForm form = PackForm::kForward;
  bool compute_bf16 = false;  ///< element type inside `packed`: bf16, else f32

  template <class F>
  auto map(F&& f) const {
    return PackWeight<decltype(f.in("weight", weight))>{.packed = f.out("packed", packed),
                                                        .weight = f.in("weight", weight),
                                                        .remainder = f.in("remainder", remainder),
                                                        .scratch = f.out("scratch", scratch),
                                                        .form = form,
                                                        .compute_bf16 = compute_bf16};
  }
};

}  // namespace litespark::op
