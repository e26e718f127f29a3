// SPDX-License-Identifier: Apache-2.0
#include "plan/software.h"

#include <algorithm>

#include "plan/row_text.h"

namespace litespark {
namespace {

Software megatron(int year, bool is_half) {
  Software software{.name = "Megatron"};
  // Tiled attention came into Megatron in 2023.
  const bool is_early = is_half || (year > 0 && year <= 2022);
  if (!is_early) {
    // Overlap is there, and off unless asked for.
    software.data_exposed = 0.6;
    return software;
  }
  software.name = "Megatron before tiled attention";
  software.attention = AttentionKernel::kUnfused;
  software.has_dropout = true;
  software.shards_optimizer = false;
  return software;
}

Software sharded(const char* name) {
  Software software{.name = name};
  software.attention = AttentionKernel::kFlash2;
  software.shards_layers = true;
  software.memory = MemoryRule::kSharded;
  software.reports_reserved = true;
  software.caches_fp8_weights = false;
  return software;
}

Software foundry(std::string_view text) {
  Software software = sharded("LLM Foundry");
  software.attention = AttentionKernel::kFlash1;
  if (contains_text(text, "mp mode pure")) software.gradient_bytes = 2;
  return software;
}

Software torchtitan(std::string_view text, int year) {
  Software software = sharded("torchtitan");
  software.saves_every_second_matmul = true;
  software.fuses_pointwise = !contains_text(text, "eager");
  // The loss went into the compiled graph in 2025.
  software.fused_loss = software.fuses_pointwise && year >= 2025;
  if (contains_text(text, "asynctp") || contains_text(text, "async tp")) software.tensor_exposed = 0.4;
  return software;
}

Software deepspeed(std::string_view text, int year, bool is_half) {
  Software software = sharded("DeepSpeed");
  if (is_half || year <= 2022) {
    software.attention = AttentionKernel::kUnfused;
    software.has_dropout = true;
    // Its first stage 3 gathers parameter by parameter, each through one ring.
    software.one_network_card = true;
  }
  software.gradient_bytes = 2;
  if (contains_any_text(text, {"zero-1", "zero-2", "zero1", "zero2", "stage 1", "stage 2"})) {
    software.shards_layers = false;
    software.memory = MemoryRule::kFlat;
    software.data_exposed = 0.6;
  }
  return software;
}

Software nanotron() {
  Software software{.name = "nanotron"};
  software.attention = AttentionKernel::kFlash2;
  return software;
}

}  // namespace

Hardware with_kernels(Hardware hardware, const KernelShares& kernels) {
  hardware.matmul_half_k *= kernels.half_k;
  if (hardware.multiprocessors == 0) return hardware;
  hardware.matmul_efficiency = std::min(1.0, kernels.matmul * hardware.matmul_efficiency);
  return hardware;
}

Hardware between_matmuls(Hardware hardware, const KernelShares& kernels, double matmul_share) {
  if (hardware.multiprocessors == 0) return hardware;
  const double longer = 1 + kernels.attention_between_matmuls * matmul_share;
  hardware.attention.vendor_forward /= longer;
  hardware.attention.vendor_backward /= longer;
  return hardware;
}

Software litespark_software() {
  Software software{.name = "litespark"};
  // Ops are recorded once and replayed, and the hardware's figures are those of our own runs.
  software.stretch = 1;
  software.fused_loss = true;
  software.data_exposed = 0.3;
  software.counts_contention = true;
  software.tensor_stretches = 2;
  software.balances_stages = true;  // spec/stage_layers.h
  software.attention = AttentionKernel::kLitespark;
  // Matmuls are chosen by timing a library's plans, where others take its first guess. Steps of 3B that were marked op
  // by op on an H200 (bench/results/2026-12-01-h200-train.txt) had products at 698 TFLOP/s for 0.77 of their time, and
  // between them, at 1,440 MHz, attention at 486 forward and 426 backward: 1 / (1 + 0.77 x 0.19) of the 562 and 482
  // that it has alone at 1,620 to 1,710 (2026-12-01-h200-attention-forward.txt).
  software.kernels = {.matmul = 1.03, .half_k = 0.1, .attention_between_matmuls = 0.19};
  return software;
}

Software software_in_text(std::string_view source, std::string_view remarks, std::string_view precision) {
  const std::string text = lower_text(source) + "\n" + lower_text(remarks);
  const int year = year_in_text(source).value_or(0);
  const bool is_half = contains_text(lower_text(precision), "fp16");
  Software software;
  if (contains_any_text(text, {"deepspeed"})) {
    software = deepspeed(text, year, is_half);
  } else if (contains_text(text, "torchtitan")) {
    software = torchtitan(text, year);
  } else if (contains_any_text(text, {"foundry", "mosaicml", "composer"})) {
    software = foundry(text);
  } else if (contains_text(text, "nanotron")) {
    software = nanotron();
  } else if (contains_any_text(text, {"nemo", "dgxc", "megatron-bridge"})) {
    software = megatron(year, is_half);
    software.name = "NeMo";
    software.gradient_bytes = 2;
    if (software.attention != AttentionKernel::kUnfused) {
      // Its recipes cut matmuls into pieces that hide their communication, and sum gradients behind the backward pass.
      software.tensor_exposed = 0.4;
      software.data_exposed = 0.3;
    }
  } else if (contains_any_text(text, {"megatron", "narayanan", "korthikanti"})) {
    software = megatron(year, is_half);
  } else if (contains_any_text(text, {"maxtext", "axlearn", "levanter"})) {
    software = sharded("JAX, sharded");
    software.attention = AttentionKernel::kVendor;
    software.reports_reserved = false;
  } else if (contains_any_text(text, {"fsdp", "zero-3", "zero3", "llama-recipes", "axolotl", "transformers", "trl",
                                      "olmo", "litgpt", "lit-gpt"})) {
    software = sharded("FSDP");
    const bool is_compiled = contains_any_text(text, {"compile", "olmo"});
    software.fuses_pointwise = is_compiled && !contains_text(text, "eager");
  } else {
    software = megatron(year, is_half);
    software.name = is_half ? "unfused attention" : "fused kernels, sharded optimizer";
  }
  if (contains_any_text(text, {"shard_grad_op", "zero-2", "zero2"})) software.keeps_gathered = true;
  // The file name of a measured run says how its cross entropy was computed.
  if (contains_any_text(text, {"_cef", "cross entropy fusion", "cross-entropy fusion"})) software.fused_loss = true;
  return software;
}

}  // namespace litespark
