// SPDX-License-Identifier: Apache-2.0
// Runs the attention kernels on fixed inputs and leaves all results in `output`. Built for AVX2 as a program that
// prints them (f32 operands, or with the argument "bf16" operands in pairs), and without any library for AVX-512 (f32
// operands) and AVX512_BF16 (bf16 operands), to run inside an emulated processor.
#include "ops/cpu/attention_backward_tile.h"
#if defined(__AVX512BF16__)
#include "ops/cpu/bf16_math_avx512.h"
using WantedMath = litespark::cpu::avx512bf16::Bf16Math;
#elif defined(__AVX512F__)
#include "ops/cpu/vec16_avx512.h"
using WantedMath = litespark::cpu::F32Math<litespark::cpu::avx512::Vec16, 4>;
#else
#include "ops/cpu/vec16_avx2.h"
#include "support/pair_math.h"
using WantedMath = litespark::cpu::F32Math<litespark::cpu::avx2::Vec16, 1>;
#endif

extern "C" {
unsigned char output[4 << 20];
uint64_t output_size = 0;

/// One implementation for all builds; its precision does not matter here.
float logf(float x) {
  float result = 0;
  for (; x > 1.5f; x *= 0.5f) result += 0.6931472f;
  const float y = x - 1.0f;
  return result + y - 0.5f * y * y + y * y * y * 0.33333333f;
}
}

namespace {

using namespace litespark;
using namespace litespark::cpu;

constexpr int kLongest = 200;
constexpr int kPadded = 128;
constexpr int kGroup = 2;
constexpr int kRowsOfTiles = 256;

alignas(64) unsigned char scratch[64][kRowsOfTiles * kPadded * 4];
alignas(64) unsigned char tensors[5][kLongest * (kGroup + 2) * kPadded * 4];
float log_sum_exp[kGroup * kLongest];
uint32_t random_state = 4711;

template <class Value>
void fill(int index, int64_t size, float scale) {
  for (int64_t i = 0; i < size; ++i) {
    random_state = random_state * 1664525u + 1013904223u;
    const float value = (static_cast<float>(random_state >> 8) / 8388608.0f - 1.0f) * scale;
    if constexpr (sizeof(Value) == sizeof(float)) {
      reinterpret_cast<float*>(tensors[index])[i] = value;
    } else {
      const uint32_t bits = __builtin_bit_cast(uint32_t, value) + 0x8000u;
      reinterpret_cast<bf16*>(tensors[index])[i] = {static_cast<uint16_t>(bits >> 16)};
    }
  }
}

void keep(const void* data, int64_t bytes) {
  for (int64_t i = 0; i < bytes; ++i) output[output_size++] = static_cast<const unsigned char*>(data)[i];
}

template <class Math, class Value>
void probe(int dim, int window, int64_t length) {
  const int64_t stride = int64_t{kGroup + 2} * dim;
  const int64_t out_stride = int64_t{kGroup} * dim;
  const AttentionHead head{dim, (dim + kAttentionDimStep - 1) / kAttentionDimStep * kAttentionDimStep, window, 0.3f};
  fill<Value>(0, length * stride, 2);
  auto* qkv = reinterpret_cast<Value*>(tensors[0]);
  auto* out = reinterpret_cast<Value*>(tensors[1]);
  constexpr bool kF32 = Math::kPair == 1;
  AttentionForwardTask forward{.head = head,
                               .queries = {qkv, stride},
                               .keys = {qkv + out_stride, stride},
                               .values = {qkv + out_stride + dim, stride},
                               .out = {out, out_stride},
                               .log_sum_exp = log_sum_exp,
                               .log_sum_exp_stride = length,
                               .num_queries = length,
                               .group = kGroup};
  int next = 0;
  const auto take = [&next] { return scratch[next++]; };
  const auto take_floats = [&take] { return reinterpret_cast<float*>(take()); };
  forward.keys_tile = take();
  forward.values_tile = take();
  forward.staging = take();
  forward.scores = take_floats();
  forward.weights = kF32 ? static_cast<void*>(forward.scores) : take();
  forward.rescale = take_floats();
  for (AttentionUnit& unit : forward.units) unit = {take(), take_floats(), take_floats(), take_floats()};
  attention_forward<Math, Value>(forward);
  keep(out, length * out_stride * static_cast<int64_t>(sizeof(Value)));
  keep(log_sum_exp, kGroup * length * 4);

  fill<Value>(2, length * out_stride, 1);
  auto* dqkv = reinterpret_cast<Value*>(tensors[3]);
  AttentionBackwardTask backward{.head = head,
                                 .queries = forward.queries,
                                 .keys = forward.keys,
                                 .values = forward.values,
                                 .out = {out, out_stride},
                                 .dout = {tensors[2], out_stride},
                                 .dkeys = {dqkv + out_stride, stride},
                                 .dvalues = {dqkv + out_stride + dim, stride},
                                 .dqueries = {dqkv, stride},
                                 .log_sum_exp = log_sum_exp,
                                 .log_sum_exp_stride = length,
                                 .length = length,
                                 .key_end = length,
                                 .query_end = length,
                                 .group = kGroup};
  next = 0;
  backward.key_rows = take();
  backward.value_rows = take();
  backward.key_pairs = kF32 ? backward.key_rows : take();
  backward.key_sums = take_floats();
  backward.value_sums = take_floats();
  for (void** rows : {&backward.query_rows, &backward.query_columns, &backward.dout_rows, &backward.dout_columns,
                      &backward.staging}) {
    *rows = take();
  }
  for (float** floats :
       {&backward.query_sums, &backward.scores, &backward.dscores, &backward.log_sums, &backward.deltas}) {
    *floats = take_floats();
  }
  backward.weights = kF32 ? static_cast<void*>(backward.scores) : take();
  backward.dweights = kF32 ? static_cast<void*>(backward.dscores) : take();
  backward.dweight_columns = kF32 ? static_cast<void*>(backward.dscores) : take();
  attention_backward<Math, Value>(backward);
  keep(dqkv, length * stride * static_cast<int64_t>(sizeof(Value)));

  attention_row<Math, Value>(
      {.head = head, .query = qkv, .keys = forward.keys, .values = forward.values, .out = out, .last = length - 1});
  keep(out, dim * static_cast<int64_t>(sizeof(Value)));
}

template <class Math, class Value>
void probe_all() {
  probe<Math, Value>(40, 0, 130);
  probe<Math, Value>(64, 50, 200);
  probe<Math, Value>(7, 0, 64);
  probe<Math, Value>(128, 0, 65);
  probe<Math, Value>(33, 0, 1);
}

}  // namespace

extern "C" void run_probe() {
#if defined(__AVX512BF16__)
  probe_all<WantedMath, bf16>();
#else
  probe_all<WantedMath, float>();
  probe_all<WantedMath, bf16>();
#endif
}

#if defined(__AVX512F__)
extern "C" {
void* memset(void* to, int value, size_t count) {
  for (volatile unsigned char* byte = static_cast<unsigned char*>(to); count > 0; --count) {
    *byte++ = static_cast<unsigned char>(value);
  }
  return to;
}
void* memcpy(void* to, const void* from, size_t count) {
  const unsigned char* source = static_cast<const unsigned char*>(from);
  for (volatile unsigned char* byte = static_cast<unsigned char*>(to); count > 0; --count) *byte++ = *source++;
  return to;
}
__attribute__((naked)) void _start() {
  asm("call run_probe\n hlt\n");
}
}
#else
#include <cstdio>

int main(int num_arguments, char**) {
  if (num_arguments > 1) {
    probe_all<litespark::test::PairMath<avx2::Vec16>, bf16>();
  } else {
    run_probe();
  }
  return std::fwrite(output, 1, output_size, stdout) == output_size ? 0 : 1;
}
#endif
