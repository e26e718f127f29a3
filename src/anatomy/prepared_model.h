// SPDX-License-Identifier: Apache-2.0
// A small model on a device with fresh weights and one micro-batch of random tokens: what chapters take apart.
#pragma once

#include "anatomy/measure.h"
#include "model/executor.h"

namespace litespark::anatomy {

/// B sequences of T tokens through a Llama of this shape.
struct ModelSizes {
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t ffn = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t sequences = 1;
  int64_t length = 0;

  ModelConfig config() const;
  BatchShape batch() const;
  /// "12 x 768, F 2048, vocabulary 50304; 8 x 2048 tokens".
  std::string text() const;
};

/// A program that trains such a model: everything in the compute dtype, nothing recomputed.
ProgramOptions train_options(const ModelSizes& sizes, DType compute);

class PreparedModel {
 public:
  /// `communicator`: of the data-parallel ranks that `options` names; each has a micro-batch of its own.
  PreparedModel(Backend& backend, const ModelSizes& sizes, const ProgramOptions& options,
                Communicator* communicator = nullptr);

  Executor& executor() { return executor_; }
  /// Forward and backward of the micro-batch; gradients are overwritten.
  void run();
  /// The same and the update, with a learning rate that moves nothing far; ranks meet in it.
  void run_step();
  /// Mean loss of the last run. Waits for the device.
  double loss() const;
  /// The gradient of every parameter, one after another. Waits for the device.
  std::vector<float> gradients() const;

 private:
  Executor executor_;
};

}  // namespace litespark::anatomy
