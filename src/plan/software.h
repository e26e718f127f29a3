// SPDX-License-Identifier: Apache-2.0
// What the training program does differently from others on the same hardware, as far as time and memory see it. A
// profile states how a program works (which kernels, what it keeps, what it overlaps), never how fast one run of it
// was.
#pragma once

#include <string>
#include <string_view>

#include "plan/hardware.h"

namespace litespark {

/// Who allocates what: Megatron's flat buffers, or PyTorch's fully sharded layers (FSDP, ZeRO-3).
enum class MemoryRule : uint8_t { kFlat, kSharded };

/// What a program's kernels reach of what Hardware says of the best known ones, on GPUs; a CPU's figures are of our
/// own. Attention's is in plan/attention_time.h.
struct KernelShares {
  double matmul = 1;
  double half_k = 1;
  /// That attention takes longer between matmuls than alone: they draw more power, and a device at its limit lowers the
  /// clock of all.
  double attention_between_matmuls = 0;
};

struct Software {
  std::string name = "fused kernels, sharded optimizer";
  AttentionKernel attention = AttentionKernel::kVendor;
  bool fuses_pointwise = true;    ///< norm, rotation, activation in one pass each
  bool has_dropout = false;       ///< masks of one byte beside activations
  bool shards_layers = false;     ///< weights are gathered layer by layer, in each micro-batch
  bool keeps_gathered = false;    ///< weights stay gathered from forward to backward (ZeRO-2)
  bool shards_optimizer = true;   ///< over data-parallel ranks
  bool one_network_card = false;  ///< a collective uses one card of a node, not all
  int gradient_bytes = 4;         ///< of a parameter's gradient as it is summed over ranks
  int weight_bytes = 2;           ///< of a parameter as it is gathered
  double tensor_exposed = 1;  ///< of tensor-parallel communication: what no matmul hides and what they lose beside it
  double data_exposed = 1;    ///< of data-parallel communication
  bool counts_contention =
      false;  ///< what ops lose beside hidden calls comes to `data_exposed`, rather than being in it
  /// In which rows travel beside the products that read or make them; above 1 this decides, not tensor_exposed.
  double tensor_stretches = 1;
  /// Pipeline stages share out layers by time, the head among them; else evenly, and the head comes on top.
  bool balances_stages = false;
  /// FSDP's gathers share memory, copy engines and multiprocessors with the layers that they hide behind.
  double sharded_exposed = 0.6;
  bool fused_loss = false;        ///< logits stay in 16 bits, gradient in their place
  bool reports_reserved = false;  ///< memory figures are what the caching allocator holds, not what tensors take
  MemoryRule memory = MemoryRule::kFlat;
  bool saves_every_second_matmul = false;  ///< selective recompute as in torchtitan, else attention's scores alone
  /// Gaps between kernels, clocks under load, the slowest rank: what published runs of all programs together lose.
  double stretch = 1.07;
  bool caches_fp8_weights = true;  ///< casts weights once a step rather than once a micro-batch
  KernelShares kernels;
};

Hardware with_kernels(Hardware hardware, const KernelShares& kernels);

/// Attention as fast as it is in a step of whose time matmuls have `matmul_share`.
Hardware between_matmuls(Hardware hardware, const KernelShares& kernels, double matmul_share);

/// Our own trainer.
Software litespark_software();

/// The program that `source` (a paper, a repository) and `remarks` speak of; 16-bit floats with loss scaling are a mark
/// of the time before tiled attention. Text without any hint gives fused kernels and a sharded optimizer.
Software software_in_text(std::string_view source, std::string_view remarks, std::string_view precision);

}  // namespace litespark
