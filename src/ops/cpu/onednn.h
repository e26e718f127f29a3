// SPDX-License-Identifier: Apache-2.0
// Matrix products and weight reorders of oneDNN, versions 2 and 3, behind a few plain structs. Primitives are made once
// a shape and looked up afterwards; scratchpads belong to the caller.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "core/dtype.h"

namespace litespark::cpu {

/// How the second factor B [k, n] lies in memory.
enum class WeightLayout : uint8_t {
  kPlain,       ///< row-major [k, n]
  kTransposed,  ///< row-major [n, k]
  kPacked,      ///< the library's layout for (k, n, dtype), made by Onednn::pack
};

/// C [m, n] (+)= A [m, k] B [k, n] (+ bias [n]). Identifies one primitive.
struct GemmProblem {
  int64_t m = 0, n = 0, k = 0;
  DType source = DType::kF32;
  DType weights = DType::kF32;
  DType destination = DType::kF32;
  WeightLayout layout = WeightLayout::kPlain;
  bool source_transposed = false;  ///< A lies as [k, m]
  bool has_bias = false;           ///< f32
  bool accumulate = false;
  bool sequential = false;  ///< runs on the calling thread; several threads may run it at once

  auto operator<=>(const GemmProblem&) const = default;
};

struct GemmPointers {
  const void* source = nullptr;
  const void* weights = nullptr;
  void* destination = nullptr;
  const void* bias = nullptr;
  void* scratch = nullptr;  ///< Onednn::scratch_bytes, aligned to 64
  int slot = 0;             ///< the calling thread's number, for sequential problems
};

/// "2.7.3": of the library that was loaded.
std::string onednn_version();

class Gemm;

class Onednn {
 public:
  explicit Onednn(int threads);
  ~Onednn();
  Onednn(const Onednn&) = delete;
  Onednn& operator=(const Onednn&) = delete;

  /// Whether bf16 products run on bf16 instructions (not refused, not emulated).
  bool has_fast_bf16() const { return has_fast_bf16_; }
  /// Whether they run on tiles (AMX), several times as fast as vectors.
  bool has_bf16_tiles() const { return has_bf16_tiles_; }
  /// Whether the packed layout of f32 weights is more than a plain or transposed copy.
  bool has_blocked_f32() const { return has_blocked_f32_; }

  /// Finds or makes. Not thread-safe: call it outside parallel regions.
  Gemm& gemm(const GemmProblem& problem);
  /// Of one call; makes the primitive's description only.
  int64_t scratch_bytes(const GemmProblem& problem);
  /// Makes the object that stands for packed weights at this address, so that `execute` need not.
  void bind_packed(Gemm& gemm, const void* packed);
  /// False when the library fails: no exception may leave a parallel region.
  bool execute(Gemm& gemm, const GemmPointers& pointers);

  int64_t packed_bytes(int64_t k, int64_t n, DType dtype);
  /// Whether the packed B [k, n] is a row of blocks of 64 columns, each a row of blocks of 16 rows (f32) or 32 rows in
  /// pairs (bf16): what the kernel table's `pack` writes, faster than the library reorders.
  bool is_packed_in_blocks(int64_t k, int64_t n, DType dtype);
  /// f32 `weight` in `layout` (kPlain or kTransposed) -> packed B [k, n] of `dtype`. The first call for a pair of
  /// addresses makes the objects that stand for them.
  void pack(int64_t k, int64_t n, DType dtype, WeightLayout layout, const float* weight, void* packed);
  /// Makes those objects and packs nothing.
  void prepare_pack(int64_t k, int64_t n, DType dtype, WeightLayout layout, const float* weight, void* packed);

 private:
  struct State;
  struct Packing;
  Packing& packing(int64_t k, int64_t n, DType dtype, WeightLayout layout, const float* weight, void* packed);
  std::unique_ptr<State> state_;
  bool has_fast_bf16_ = false;
  bool has_bf16_tiles_ = false;
  bool has_blocked_f32_ = false;
};

}  // namespace litespark::cpu
