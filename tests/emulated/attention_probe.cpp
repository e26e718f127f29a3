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

/// One document's inputs and the memory of its kernels.
template <class Math, class Value>
struct Probe {
  static constexpr bool kF32 = Math::kPair == 1;
  static constexpr auto kValueBytes = static_cast<int64_t>(sizeof(Value));
  int dim, window;
  int64_t length;
  int64_t stride = int64_t{kGroup + 2} * dim;
  int64_t out_stride = int64_t{kGroup} * dim;
  AttentionHead head{dim, (dim + kAttentionDimStep - 1) / kAttentionDimStep* kAttentionDimStep, window, 0.3f};
  Value* qkv = reinterpret_cast<Value*>(tensors[0]);
  Value* out = reinterpret_cast<Value*>(tensors[1]);
  Value* dqkv = reinterpret_cast<Value*>(tensors[3]);
  AttentionRows queries{qkv, stride}, keys{qkv + out_stride, stride}, values{qkv + out_stride + dim, stride};
  int next = 0;

  void* take() { return scratch[next++]; }
  float* take_floats() { return static_cast<float*>(take()); }

  void forward() {
    fill<Value>(0, length * stride, 2);
    AttentionForwardTask task{.head = head,
                              .queries = queries,
                              .keys = keys,
                              .values = values,
                              .out = {out, out_stride},
                              .log_sum_exp = log_sum_exp,
                              .log_sum_exp_stride = length,
                              .num_queries = length,
                              .group = kGroup};
    next = 0;
    task.keys_tile = take();
    task.values_tile = take();
    task.staging = take();
    task.scores = take_floats();
    task.weights = kF32 ? static_cast<void*>(task.scores) : take();
    task.rescale = take_floats();
    for (AttentionUnit& unit : task.units) unit = {take(), take_floats(), take_floats(), take_floats()};
    attention_forward<Math, Value>(task);
    keep(out, length * out_stride * kValueBytes);
    keep(log_sum_exp, kGroup * length * 4);
  }

  void take_backward_buffers(AttentionBackwardTask& task) {
    next = 0;
    task.key_rows = take();
    task.value_rows = take();
    task.key_pairs = kF32 ? task.key_rows : take();
    for (void** rows : {&task.query_rows, &task.query_columns, &task.dout_rows, &task.dout_columns, &task.staging}) {
      *rows = take();
    }
    for (float** floats : {&task.key_sums, &task.value_sums, &task.query_sums, &task.scores, &task.dscores,
                           &task.log_sums, &task.deltas}) {
      *floats = take_floats();
    }
    task.weights = kF32 ? static_cast<void*>(task.scores) : take();
    task.dweights = kF32 ? static_cast<void*>(task.dscores) : take();
    task.dweight_columns = kF32 ? static_cast<void*>(task.dscores) : take();
  }

  void backward() {
    fill<Value>(2, length * out_stride, 1);
    AttentionBackwardTask task{.head = head,
                               .queries = queries,
                               .keys = keys,
                               .values = values,
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
    take_backward_buffers(task);
    attention_backward<Math, Value>(task);
    keep(dqkv, length * stride * kValueBytes);
  }

  void row() {
    attention_row<Math, Value>(
        {.head = head, .query = qkv, .keys = keys, .values = values, .out = out, .last = length - 1});
    keep(out, dim * kValueBytes);
  }
};

template <class Math, class Value>
void probe(int dim, int window, int64_t length) {
  Probe<Math, Value> one{.dim = dim, .window = window, .length = length};
  one.forward();
  one.backward();
  one.row();
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
