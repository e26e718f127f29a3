// SPDX-License-Identifier: Apache-2.0
// Attention of the shapes that Litespark is measured by: cuDNN's and ours in both directions, on 8-bit floats, and with
// rotary positions inside.
#pragma once

#include <string>
#include <vector>

#include "bench_report.h"
#include "ops/cuda/cuda_backend.h"

namespace litespark::bench {

struct AttentionCase {
  int batch, length, heads, kv_heads, head_dim, window;
};

/// How rows name it: "B=4 T=4096 H=24/8 D=128 forward".
std::string attention_name(const AttentionCase& test, const char* pass);

/// 16k tokens in every case: what changes is how they are divided.
std::vector<AttentionCase> attention_cases();
/// Shapes of whole models: 3B at five lengths, 1B (also one document of 128k tokens), 160M, 1.6B; heads that share no
/// keys, an odd length, a window; other sizes of heads.
std::vector<AttentionCase> backward_cases();
/// Heads of 128 at five lengths, without groups, documents that begin within a group of 16 rows, a window.
std::vector<AttentionCase> fp8_attention_cases();

/// Both directions on a backend with `options`, called `mode` in the rows.
void bench_attention(Report& report, const CudaOptions& options, const std::string& mode, const GpuMonitor& monitor,
                     double seconds, const AttentionCase& test);
/// The forward in bf16 and on 8-bit floats, and the copies that the latter reads.
void bench_fp8_attention(Report& report, const GpuMonitor& monitor, double seconds, const AttentionCase& test);
/// op::Rope beside kernels that rotate themselves, in both directions and with a table in either dtype.
void bench_all_rotary(Report& report, const GpuMonitor& monitor, double seconds);

}  // namespace litespark::bench
