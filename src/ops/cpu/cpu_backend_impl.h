// SPDX-License-Identifier: Apache-2.0
// The class behind make_cpu_backend. Each run() is defined in the file named after its op; this header only lists them.
#pragma once

#include <memory>
#include <string>

#include "ops/cpu/cpu_backend.h"

namespace litespark::cpu {

/// oneDNN engine, primitives and packed layouts (matmul.cpp). Opaque here so that only one file sees the library.
class MatmulLibrary;
struct MatmulLibraryDeleter {
  void operator()(MatmulLibrary* library) const;
};

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options);
  ~CpuBackend() override;

  std::string name() const override;
  Device device() const override { return Device::kCpu; }
  const BackendSizes& sizes() const override;

  std::unique_ptr<DeviceMemory> allocate(int64_t bytes) override;
  std::optional<int64_t> free_bytes() const override;
  MemoryUse memory_use() const override;
  void copy_to_device(void* destination, const void* source, int64_t bytes) override;
  void copy_to_host(void* destination, const void* source, int64_t bytes) override;
  void synchronize() override {}
  std::unique_ptr<DeviceTimer> make_timer() override { return make_host_timer(); }
  void prepare(const op::AnyOp<Tensor>& op) override;

  void run(const op::EmbeddingForward<Tensor>& op) override;
  void run(const op::EmbeddingBackward<Tensor>& op) override;
  void run(const op::RmsNormForward<Tensor>& op) override;
  void run(const op::RmsNormBackward<Tensor>& op) override;
  void run(const op::HeadNormForward<Tensor>& op) override;
  void run(const op::HeadNormBackward<Tensor>& op) override;
  void run(const op::MatmulForward<Tensor>& op) override;
  void run(const op::MatmulBackwardInput<Tensor>& op) override;
  void run(const op::MatmulBackwardWeight<Tensor>& op) override;
  void run(const op::BiasBackward<Tensor>& op) override;
  void run(const op::PackWeight<Tensor>& op) override;
  void run(const op::Rope<Tensor>& op) override;
  void run(const op::AttentionForward<Tensor>& op) override;
  void run(const op::AttentionBackward<Tensor>& op) override;
  void run(const op::AttentionCached<Tensor>& op) override;
  void run(const op::AttentionPartForward<Tensor>& op) override;
  void run(const op::AttentionPartBackward<Tensor>& op) override;
  void run(const op::TakeColumns<Tensor>& op) override;
  void run(const op::JoinColumns<Tensor>& op) override;
  void run(const op::SwiGluForward<Tensor>& op) override;
  void run(const op::SwiGluBackward<Tensor>& op) override;
  void run(const op::GatedForward<Tensor>& op) override;
  void run(const op::GatedBackward<Tensor>& op) override;
  void run(const op::CrossEntropy<Tensor>& op) override;
  void run(const op::CrossEntropyPart<Tensor>& op) override;
  void run(const op::CrossEntropyJoined<Tensor>& op) override;
  void run(const op::LossReduce<Tensor>& op) override;
  void run(const op::GradientSquareSum<Tensor>& op) override;
  void run(const op::StepDecision<Tensor>& op) override;
  void run(const op::AdamW<Tensor>& op) override;
  void run(const op::MeanOfCopies<Tensor>& op) override;
  void run(const op::Convert<Tensor>& op) override;
  void run(const op::Add<Tensor>& op) override;
  void run(const op::OffloadStore<Tensor>& op) override;
  void run(const op::OffloadFetch<Tensor>& op) override;
  void run(const op::OffloadWait<Tensor>& op) override;
  void run(const op::Checksum<Tensor>& op) override;
  void run(const op::PutStepSums<Tensor>& op) override;
  void run(const op::TakeStepSums<Tensor>& op) override;
  void run(const op::Clear<Tensor>& op) override;
  void run(const op::AbsMax<Tensor>& op) override;
  void run(const op::QuantizeFp8<Tensor>& op) override;
  void run(const op::ScaledMatmul<Tensor>& op) override;
  void run(const op::QuantizeQkv<Tensor>& op) override;
  void run(const op::AttentionForwardFp8<Tensor>& op) override;
  void run(const op::CompressGradient<Tensor>& op) override;
  void run(const op::SumMessages<Tensor>& op) override;
  void run(const op::DropResidual<Tensor>& op) override;

  int threads() const { return threads_; }
  CpuIsa isa() const { return isa_; }
  std::map<std::string, std::string> tuning() const override;

 private:
  int threads_ = 1;
  CpuIsa isa_ = CpuIsa::kGeneric;
  std::shared_ptr<MemoryLedger> ledger_ = std::make_shared<MemoryLedger>();
  std::unique_ptr<MatmulLibrary, MatmulLibraryDeleter> matmul_;
};

}  // namespace litespark::cpu
