// SPDX-License-Identifier: Apache-2.0
#include "train/verify_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "data/batch.h"
#include "io/hf_folder.h"
#include "model/weights.h"
#include "train/reference_case.h"
#include "train/trainer.h"

namespace litespark {
namespace {

struct Limits {
  double logits, loss, norm, gradient, update;
};
constexpr Limits kF32Limits{.logits = 2e-4, .loss = 1e-5, .norm = 1e-4, .gradient = 1e-4, .update = 2e-3};
constexpr Limits kBf16Limits{.logits = 5e-2, .loss = 1e-2, .norm = 5e-2, .gradient = 5e-2, .update = 0};

ProgramOptions program_options(const ReferenceCase& reference, DType compute) {
  const int64_t num_tokens = reference.batch * reference.length;
  const int64_t longest = *std::max_element(reference.document_lengths.begin(), reference.document_lengths.end());
  return {.batch = {.num_tokens = num_tokens,
                    .max_documents = static_cast<int64_t>(reference.document_lengths.size()),
                    .max_length = longest,
                    .uniform = reference.kind == "causal-lm"},
          .compute = compute,
          .residual = DType::kF32,
          .has_logits = true,
          .head_chunk_rows = std::max<int64_t>(1, num_tokens / 2),
          .adamw = {.beta1 = reference.beta1,
                    .beta2 = reference.beta2,
                    .eps = reference.eps,
                    .weight_decay = reference.weight_decay}};
}

/// Labels of a case are not shifted: position t is scored with label t + 1 of its own document.
Batch case_batch(const ReferenceCase& reference, size_t step, const BatchShape& shape) {
  Batch batch;
  batch.reset(shape);
  const ReferenceCase::StepTokens& tokens = reference.tokens[step];
  size_t first = 0;
  for (const int64_t length : reference.document_lengths) {
    const auto count = static_cast<size_t>(length);
    std::vector<int32_t> labels(count, op::kIgnoredLabel);
    std::copy_n(tokens.labels.begin() + static_cast<std::ptrdiff_t>(first) + 1, count - 1, labels.begin());
    batch.append(std::span(tokens.ids).subspan(first, count), labels);
    first += count;
  }
  return batch;
}

class Verifier {
 public:
  Verifier(const std::filesystem::path& folder, Backend& backend, DType compute)
      : reference_(read_reference_case(folder)),
        expected_(SafetensorsFile::open(folder / "case.safetensors")),
        executor_(make_llama_program(reference_.config, program_options(reference_, compute), backend.sizes()),
                  backend),
        limits_(compute == DType::kF32 ? kF32Limits : kBf16Limits) {
    load_weights(executor_, folder);
  }

  VerifyReport run() {
    report_.kind = reference_.kind;
    const BatchShape shape = executor_.program().options.batch;
    for (size_t step = 0; step < reference_.tokens.size(); ++step)
      batches_.push_back(case_batch(reference_, step, shape));
    std::vector<std::vector<float>> before;
    for (size_t p = 0; p < params().size(); ++p) before.push_back(get_parameter(executor_, static_cast<int64_t>(p)));
    Trainer trainer(executor_,
                    {.schedule = {.decay = Decay::kConstant,
                                  .peak = reference_.has_update ? reference_.lr : 1.0,
                                  .total_steps = reference_.steps},
                     .clip_norm = reference_.clip_norm},
                    [this](uint64_t index) -> const Batch& { return batches_[index]; });
    check_logits();
    for (int64_t step = 0; step < reference_.steps; ++step) check_step(trainer, static_cast<size_t>(step));
    if (reference_.has_update && limits_.update > 0) check_updates(before);
    return std::move(report_);
  }

 private:
  const std::vector<ParamSpec>& params() const { return executor_.program().params.params; }

  void add(std::string name, double error, double limit) {
    report_.checks.push_back({.name = std::move(name), .error = error, .limit = limit, .pass = error <= limit});
  }

  void check_logits() {
    upload_batch(executor_, batches_[0]);
    executor_.run(Phase::kLogits);
    const TensorInfo& info = executor_.program().tensors[executor_.program().logits];
    std::vector<std::byte> raw(static_cast<size_t>(info.bytes()));
    executor_.read(executor_.program().logits, raw.data(), info.bytes());
    std::vector<float> expected(static_cast<size_t>(info.shape.num_elements()));
    expected_.read_f32("logits", expected);
    double worst = 0, largest = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      float value = 0;
      if (info.dtype == DType::kF32) {
        std::memcpy(&value, raw.data() + i * sizeof(float), sizeof(float));
      } else {
        bf16 narrow;
        std::memcpy(&narrow, raw.data() + i * sizeof(bf16), sizeof(bf16));
        value = to_float(narrow);
      }
      const double error = std::abs(double{value} - double{expected[i]});
      worst = error <= worst ? worst : error;  // NaN wins
      largest = std::max(largest, std::abs(double{expected[i]}));
    }
    add("logits", worst / largest, limits_.logits);
  }

  void check_step(Trainer& trainer, size_t step) {
    const StepRecord record = trainer.step_and_finish();
    const double loss = reference_.losses[step];
    add("loss." + std::to_string(step), std::abs(record.loss - loss) / std::abs(loss), limits_.loss);
    if (!reference_.grad_norms.empty()) {
      const double norm = reference_.grad_norms[step];
      add("grad_norm." + std::to_string(step), std::abs(record.grad_norm - norm) / norm, limits_.norm);
    }
    if (step > 0) return;
    for (size_t p = 0; p < params().size(); ++p) {
      std::vector<float> gradient = get_gradient(executor_, static_cast<int64_t>(p));
      for (float& value : gradient) value /= static_cast<float>(record.supervised_tokens);
      compare_parts("grad.", params()[p], gradient, {}, limits_.gradient);
    }
  }

  void check_updates(const std::vector<std::vector<float>>& before) {
    for (size_t p = 0; p < params().size(); ++p) {
      compare_parts("after.", params()[p], get_parameter(executor_, static_cast<int64_t>(p)), before[p],
                    limits_.update);
    }
  }

  /// Relative L2 error of each part's values against the case's; with `origin` both sides are differences from it.
  void compare_parts(const std::string& prefix, const ParamSpec& param, const std::vector<float>& values,
                     const std::vector<float>& origin, double limit) {
    for (const ParamPart& part : param.parts) {
      const bool nearly_cancels = limits_.update == 0 && part.write_name.ends_with("k_proj.bias");
      if (nearly_cancels) continue;
      const auto count = static_cast<size_t>(part.shape.num_elements());
      const size_t first = static_cast<size_t>(part.first_row) * count / static_cast<size_t>(part.shape[0]);
      std::vector<float> expected(count);
      expected_.read_f32(prefix + part.write_name, expected);
      double difference = 0, norm = 0;
      for (size_t i = 0; i < count; ++i) {
        const double zero = origin.empty() ? 0.0 : double{origin[first + i]};
        const double error = double{values[first + i]} - double{expected[i]};
        difference += error * error;
        norm += (double{expected[i]} - zero) * (double{expected[i]} - zero);
      }
      const double relative = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
      add((origin.empty() ? prefix : "update.") + part.write_name, relative, limit);
    }
  }

  ReferenceCase reference_;
  SafetensorsFile expected_;
  Executor executor_;
  Limits limits_;
  std::vector<Batch> batches_;
  VerifyReport report_;
};

}  // namespace

bool VerifyReport::pass() const {
  return !checks.empty() &&
         std::all_of(checks.begin(), checks.end(), [](const VerifyCheck& check) { return check.pass; });
}

VerifyReport verify_case(const std::filesystem::path& folder, Backend& backend, DType compute) {
  return Verifier(folder, backend, compute).run();
}

}  // namespace litespark
