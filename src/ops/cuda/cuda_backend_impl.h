// SPDX-License-Identifier: Apache-2.0
// The class behind make_cuda_backend. Each run() is defined in the file named after its op; this header only lists
// them.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/device_context.h"

namespace litespark::cuda {

/// cuBLASLt handles, descriptors, timed choices and workspace (matmul.cpp). Opaque: one file sees the library.
class MatmulLibrary;
struct MatmulLibraryDeleter {
  void operator()(MatmulLibrary* library) const;
};
using MatmulLibraryPtr = std::unique_ptr<MatmulLibrary, MatmulLibraryDeleter>;
MatmulLibraryPtr make_matmul_library(const DeviceContext& context, const CudaOptions& options);

/// cuDNN graphs where that library is there, else the portable kernels' choices (attention.cpp).
class AttentionLibrary;
struct AttentionLibraryDeleter {
  void operator()(AttentionLibrary* library) const;
};
using AttentionLibraryPtr = std::unique_ptr<AttentionLibrary, AttentionLibraryDeleter>;
AttentionLibraryPtr make_attention_library(const DeviceContext& context, const CudaOptions& options);

/// Scratch sizes as the two libraries state them (sizes.cpp).
std::unique_ptr<BackendSizes> make_cuda_sizes(const DeviceContext& context, AttentionLibrary& attention);

/// Page-locked buffers through which host memory of any kind reaches the device (transfer.cpp).
class Staging;
struct StagingDeleter {
  void operator()(Staging* staging) const;
};
using StagingPtr = std::unique_ptr<Staging, StagingDeleter>;
StagingPtr make_staging(const DeviceContext& context);

/// The stream of activations on their way to host memory and back (offload.cpp).
class OffloadStream;
struct OffloadStreamDeleter {
  void operator()(OffloadStream* stream) const;
};
using OffloadStreamPtr = std::unique_ptr<OffloadStream, OffloadStreamDeleter>;
OffloadStreamPtr make_offload_stream(const DeviceContext& context);
/// Makes what the copies of a ticket need, so that they can be recorded.
void prepare_offload(OffloadStream& stream, int ticket);

/// Which products with SwiGLU inside are one kernel (gated_choice.h).
class GatedChoices;
struct GatedChoicesDeleter {
  void operator()(GatedChoices* choices) const;
};
using GatedChoicesPtr = std::unique_ptr<GatedChoices, GatedChoicesDeleter>;
GatedChoicesPtr make_gated_choices(const DeviceContext& context);

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options);
  ~CudaBackend() override;

  std::string name() const override;
  Device device() const override { return Device::kCuda; }
  const BackendSizes& sizes() const override { return *sizes_; }

  std::unique_ptr<DeviceMemory> allocate(int64_t bytes) override;
  std::unique_ptr<DeviceMemory> allocate_pinned(int64_t bytes) override;
  std::optional<int64_t> free_bytes() const override;
  MemoryUse memory_use() const override;
  void copy_to_device(void* destination, const void* source, int64_t bytes) override;
  void copy_to_host(void* destination, const void* source, int64_t bytes) override;
  std::unique_ptr<AsyncRead> make_async_read(int64_t bytes) override;
  std::unique_ptr<SideReader> make_side_reader() override;
  std::unique_ptr<StagedUpload> make_staged_upload(const Tensor& destination, const Tensor& staging) override;
  void synchronize() override;
  std::unique_ptr<DeviceTimer> make_timer() override;
  void prepare(const op::AnyOp<Tensor>& op) override;
  std::map<std::string, std::string> tuning() const override;
  void set_tuning(const std::map<std::string, std::string>& choices) override;
  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& body) override;

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
  void run(const op::AttentionPartForward<Tensor>& op) override;
  void run(const op::AttentionPartBackward<Tensor>& op) override;
  void run(const op::TakeColumns<Tensor>& op) override;
  void run(const op::JoinColumns<Tensor>& op) override;
  void run(const op::AttentionCached<Tensor>& op) override;
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

  const DeviceContext& context() const { return context_; }

  /// The two ways of a product with SwiGLU inside, whatever was chosen. `joined` wants has_gated_product
  /// (gated_product.h).
  void run_joined(const op::GatedForward<Tensor>& op);
  void run_joined(const op::GatedBackward<Tensor>& op);
  void run_apart(const op::GatedForward<Tensor>& op);
  void run_apart(const op::GatedBackward<Tensor>& op);

 private:
  void prepare_gated(const op::GatedForward<Tensor>& op);
  void prepare_gated(const op::GatedBackward<Tensor>& op);
  template <class Op>
  void prepare_gated(const Op& op, int64_t depth, int64_t columns);

  DeviceContext context_;
  std::shared_ptr<MemoryLedger> ledger_ = std::make_shared<MemoryLedger>();
  StagingPtr staging_;
  OffloadStreamPtr offload_;
  MatmulLibraryPtr matmul_;
  AttentionLibraryPtr attention_;
  GatedChoicesPtr gated_;
  std::unique_ptr<BackendSizes> sizes_;
};

}  // namespace litespark::cuda
