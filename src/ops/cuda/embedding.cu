// SPDX-License-Identifier: Apache-2.0
// Token lookup.
#include <algorithm>

#include "core/step_state.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/heuristics/rows.h"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

template <class Out, class Table>
struct LookupArgs {
  Out* out;
  const Table* table;
  const int32_t* ids;
  StepState* state;
  int64_t vocab;
  int64_t first_id;
  int64_t rows;  // of the table
  int columns;
};

template <class Out, class Table, int kWidth>
__global__ void embedding_forward_kernel(LookupArgs<Out, Table> args);

template <class Out, class Table>
void launch_lookup(const op::EmbeddingForward<Tensor>& op, cudaStream_t stream) {
  const LookupArgs<Out, Table> args{.out = op.out.as<Out>(),
                                    .table = op.table.as<Table>(),
                                    .ids = op.ids.as<int32_t>(),
                                    .state = static_cast<StepState*>(op.state.data),
                                    .vocab = op.vocab > 0 ? op.vocab : op.table.rows(),
                                    .first_id = op.first_id,
                                    .rows = op.table.rows(),
                                    .columns = static_cast<int>(op.table.columns())};
  const unsigned grid = grid_size(op.kName, op.out.rows());
  const bool is_wide = args.columns % kVectorWidth == 0;
  const int threads = std::min(threads_for(args.columns / (is_wide ? kVectorWidth : 1), 1), kMaxTeamThreads);
  if (is_wide) {
    embedding_forward_kernel<Out, Table, kVectorWidth><<<grid, threads, 0, stream>>>(args);
  } else {
    embedding_forward_kernel<Out, Table, 1><<<grid, threads, 0, stream>>>(args);
  }
  check_launch(op.kName);
}

}  // namespace

void CudaBackend::run(const op::EmbeddingForward<Tensor>& op) {
  if (op.remainder.has_value()) {
    throw InternalError(op.kName, "the CUDA backend looks up bf16 copies, not their remainders");
  }
  if (op.out.num_elements() == 0) return;
  visit_float_dtype(op.kName, op.out.dtype, [&](auto out_tag) {
    visit_float_dtype(op.kName, op.table.dtype, [&](auto table_tag) {
      launch_lookup<typename decltype(out_tag)::type, typename decltype(table_tag)::type>(op, context_.stream);
    });
  });
}

namespace {

// A block a token: 4 bytes of traffic an element in bf16, table rows that repeat come from L2.
template <class Out, class Table, int kWidth>
__global__ void embedding_forward_kernel(LookupArgs<Out, Table> args) {
  const int64_t token = blockIdx.x;
  const int id = args.ids[token];
  const bool is_known = id >= 0 && id < args.vocab;
  if (!is_known && threadIdx.x == 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&args.state->bad_tokens), 1ull);
  }
  const int64_t row = id - args.first_id;
  const bool is_here = is_known && row >= 0 && row < args.rows;
  const Table* source = args.table + row * args.columns;
  Out* out = args.out + token * args.columns;
  for (int c = static_cast<int>(threadIdx.x) * kWidth; c < args.columns; c += static_cast<int>(blockDim.x) * kWidth) {
    float values[kWidth] = {};
    if (is_here) load_floats(source + c, values);
    store_floats(out + c, values);
  }
}

}  // namespace
}  // namespace litespark::cuda
