// SPDX-License-Identifier: Apache-2.0
// CUDA graphs: the ops of a step recorded once, started by one call.
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"

namespace litespark::cuda {
namespace {

class CudaGraph final : public CapturedGraph {
 public:
  CudaGraph(cudaGraph_t graph, cudaStream_t stream) : stream_(stream) {
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "capture");
    check(cudaGraphUpload(executable_, stream_), "capture");
  }
  ~CudaGraph() override { cudaGraphExecDestroy(executable_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch() override { check(cudaGraphLaunch(executable_, stream_), "captured graph"); }

 private:
  cudaGraphExec_t executable_ = nullptr;
  cudaStream_t stream_;
};

}  // namespace

std::unique_ptr<CapturedGraph> CudaBackend::capture(const std::function<void()>& body) {
  check(cudaStreamBeginCapture(context_.stream, cudaStreamCaptureModeThreadLocal), "capture");
  cudaGraph_t graph = nullptr;
  try {
    body();
  } catch (...) {
    cudaStreamEndCapture(context_.stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(context_.stream, &graph), "capture");
  return std::make_unique<CudaGraph>(graph, context_.stream);
}

}  // namespace litespark::cuda
