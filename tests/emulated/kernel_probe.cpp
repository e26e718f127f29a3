// SPDX-License-Identifier: Apache-2.0
// Runs every row kernel of one instruction set on fixed inputs and leaves all results in `output`. Built twice: for
// AVX2 as a program that prints them, for AVX-512 without any library, to run inside an emulated processor.
#include "ops/cpu/kernel_table_impl.h"
#if defined(__AVX512F__)
#include "ops/cpu/vec16_avx512.h"
using Vec = litespark::cpu::avx512::Vec16;
#else
#include "ops/cpu/vec16_avx2.h"
using Vec = litespark::cpu::avx2::Vec16;
#endif

extern "C" {
unsigned char output[8 << 20];
uint64_t output_size = 0;
}

namespace {

using namespace litespark;
using namespace litespark::cpu;

constexpr int64_t kLongest = 2048;
constexpr KernelTable kTable = make_kernel_table<Vec>();
constexpr float kSpecials[] = {0.0f,
                               -0.0f,
                               1e-40f,
                               -1e-42f,
                               1e38f,
                               -3.39e38f,
                               88.0f,
                               -87.4f,
                               89.5f,
                               1.00390625f,
                               1.01171875f,
                               1e-38f,
                               __builtin_inff(),
                               -__builtin_inff(),
                               __builtin_nanf(""),
                               -1.0f};

alignas(64) unsigned char buffers[8][kLongest * sizeof(float)];
uint32_t random_state = 12345;

uint32_t next_random() {
  random_state = random_state * 1664525u + 1013904223u;
  return random_state >> 8;
}

bf16 rounded(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

/// Uniform in [-scale, scale); every fourth value a special one if asked for.
template <class T = float>
T* fill(int index, int dtype, int64_t size, float scale, bool special) {
  for (int64_t i = 0; i < size; ++i) {
    float value = (static_cast<float>(next_random()) / 8388608.0f - 1.0f) * scale;
    if (special && next_random() % 4 == 0) value = kSpecials[next_random() % 16];
    if (dtype == 0) {
      reinterpret_cast<float*>(buffers[index])[i] = value;
    } else {
      reinterpret_cast<bf16*>(buffers[index])[i] = rounded(value);
    }
  }
  return reinterpret_cast<T*>(buffers[index]);
}

void keep(const void* data, int64_t bytes) {
  for (int64_t i = 0; i < bytes; ++i) output[output_size++] = static_cast<const unsigned char*>(data)[i];
}

/// `bytes` of the buffer's start.
void keep_buffer(int index, int64_t bytes) {
  keep(buffers[index], bytes);
}

void probe_norms(int64_t size, int residual, int compute, bool special) {
  const int64_t residual_bytes = size * (residual == 0 ? 4 : 2);
  const int64_t compute_bytes = size * (compute == 0 ? 4 : 2);
  const float* weight = fill(0, 0, size, 1, false);
  fill(1, residual, size, 2, special);
  fill(2, compute, size, 1, special);
  NormForwardRow forward{buffers[1], buffers[2], buffers[3], buffers[4], weight, size, 1e-5f};
  for (const void* delta : {forward.delta, static_cast<const void*>(nullptr)}) {
    forward.delta = delta;
    const float rstd = kTable.norm_forward[residual][compute](forward);
    keep(&rstd, sizeof(rstd));
    keep_buffer(3, residual_bytes);
    keep_buffer(4, compute_bytes);
  }
  for (const bool first : {false, true}) {
    fill(3, residual, size, 1, special);
    float* dweight = fill(5, 0, size, 1, false);
    kTable.norm_backward[residual][compute](
        {buffers[3], first ? nullptr : buffers[6], dweight, buffers[2], buffers[1], weight, size, 0.77f, first});
    keep_buffer(3, residual_bytes);
    keep_buffer(6, compute_bytes);
    keep_buffer(5, size * 4);
  }
}

void probe_dtype(int64_t size, int dtype, bool special) {
  const int64_t bytes = size * (dtype == 0 ? 4 : 2);
  for (const int to : {0, 1}) {
    fill(0, dtype, size, 3, special);
    kTable.convert[dtype][to](buffers[0], buffers[1], size);
    keep_buffer(1, size * (to == 0 ? 4 : 2));
    probe_norms(size, dtype, to, special);
  }
  float* sum = fill(1, 0, size, 1, special);
  kTable.add[dtype](sum, fill(0, dtype, size, 1, special), size);
  keep_buffer(1, size * 4);
  fill(0, dtype, size, 8, special);
  fill(1, dtype, size, 2, special);
  fill(2, dtype, size, 1, special);
  kTable.swiglu_forward[dtype]({buffers[3], buffers[0], buffers[1], size});
  kTable.swiglu_backward[dtype]({buffers[4], buffers[5], buffers[2], buffers[0], buffers[1], size});
  for (const int index : {3, 4, 5}) keep_buffer(index, bytes);
  fill(0, dtype, size, 3, special);
  kTable.rope[dtype]({buffers[0], fill(1, 0, size, 1, special), 1, size / 2 * 2, -1.0f});
  keep_buffer(0, bytes);
  fill(0, dtype, size, 20, special);
  const SoftmaxStatistics statistics = kTable.softmax_statistics[dtype](buffers[0], size);
  keep(&statistics.maximum, sizeof(float));
  keep(&statistics.sum, sizeof(double));
  kTable.softmax_gradient[dtype](
      {buffers[0], size, size / 2, statistics.maximum, static_cast<float>(1.0 / statistics.sum)});
  keep_buffer(0, bytes);
}

void probe_optimizer(int64_t size, bool special) {
  const double square_sum = kTable.square_sum(fill(0, 0, size, 5, special), size);
  keep(&square_sum, sizeof(square_sum));
  float* second = fill(2, 0, size, 1, false);
  for (int64_t i = 0; i < size; ++i) second[i] *= second[i];
  kTable.adamw({fill(0, 0, size, 1, false), fill(1, 0, size, 1, special), second, reinterpret_cast<bf16*>(buffers[3]),
                fill(4, 0, size, 1, special), size, 0.37f, 0.9f, 0.1f, 0.999f, 0.001f, 1.7f, 1e-8f, 3e-3f, 0.9997f});
  for (const int index : {0, 1, 2}) keep_buffer(index, size * 4);
  keep_buffer(3, size * 2);
}

}  // namespace

extern "C" void run_probe() {
  for (const bool special : {false, true}) {
    for (int64_t size = 1; size <= kLongest; size += size < 50 ? 1 : 333) {
      for (const int dtype : {0, 1}) probe_dtype(size, dtype, special);
      probe_optimizer(size, special);
    }
  }
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
/// Called for negative numbers only.
float sqrtf(float) {
  return -__builtin_nanf("");
}
__attribute__((naked)) void _start() {
  asm("call run_probe\n hlt\n");
}
}
#else
#include <cstdio>

int main() {
  run_probe();
  return std::fwrite(output, 1, output_size, stdout) == output_size ? 0 : 1;
}
#endif
