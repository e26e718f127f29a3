// SPDX-License-Identifier: Apache-2.0
// `litespark convert`: a model as a new Hugging Face folder, in another dtype or cut into other files.
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "commands.h"
#include "core/bf16.h"
#include "core/text_table.h"
#include "io/file.h"
#include "io/hf_config.h"
#include "io/hf_folder.h"
#include "io/sealed_folder.h"
#include "model_folder.h"
#include "train/checkpoint.h"

namespace litespark::cli {
namespace {

namespace fs = std::filesystem;

enum class TargetDType : uint8_t { kAsItIs, kF32, kBF16 };

/// A checkpoint is held against its seal before anything in it is read.
const fs::path& checked(const fs::path& folder) {
  if (is_sealed(folder)) check_sealed_folder(folder);
  return folder;
}

/// Where values come from: the folder's weights, or for fp32 the masters that a bf16 checkpoint keeps beside them.
class ModelValues {
 public:
  explicit ModelValues(const fs::path& folder)
      : config_(read_hf_config(checked(folder) / "config.json")),
        params_(make_param_table(config_)),
        weights_(HfFolder::open(folder)) {
    weights_.check(config_, params_);
    for (const ParamSpec& param : params_.params) {
      for (const ParamPart& part : param.parts) stored_.insert(stored_dtype(part));
    }
    if (!is_sealed(folder) || !fs::exists(folder / kOptimizerFile)) return;
    SafetensorsFile beside = SafetensorsFile::open(folder / kOptimizerFile, Symlinks::kRefuse);
    if (beside.find(params_.params.front().name + ".master") != nullptr) masters_ = std::move(beside);
  }

  const ModelConfig& config() const { return config_; }
  const ParamTable& params() const { return params_; }
  bool has_masters() const { return masters_.has_value(); }
  bool has_f64() const { return stored_.contains(SafetensorsDType::kF64); }
  /// bf16 when every tensor is, f32 otherwise.
  DType own_dtype() const { return stored_ == std::set{SafetensorsDType::kBF16} ? DType::kBF16 : DType::kF32; }

  void read(const ParamSpec& param, DType target, std::vector<float>& values) const {
    values.resize(static_cast<size_t>(param.shape.num_elements()));
    if (target == DType::kF32 && masters_) {
      masters_->read_f32(param.name + ".master", values);
    } else {
      weights_.read_parameter(param, values);
    }
  }

 private:
  /// A tied head may stand in for the embedding; it counts with the other tensors.
  SafetensorsDType stored_dtype(const ParamPart& part) const {
    for (const std::string& name : part.read_names) {
      if (weights_.contains(name)) return weights_.info(name).dtype;
    }
    return weights_.info("lm_head.weight").dtype;
  }

  ModelConfig config_;
  ParamTable params_;
  HfFolder weights_;
  std::set<SafetensorsDType> stored_;
  std::optional<SafetensorsFile> masters_;
};

/// A folder under a partial name until it is whole: what an error or a kill leaves is never taken for the result.
class NewFolder {
 public:
  /// Throws ConfigError when there is anything at `destination`.
  explicit NewFolder(const fs::path& destination)
      : destination_(destination),
        partial_(fs::absolute(destination).parent_path() /
                 (".partial-" + destination.filename().string() + "-" + std::to_string(getpid()))) {
    if (fs::exists(fs::symlink_status(destination))) {
      throw ConfigError("OUT", "exists already, and nothing is overwritten", destination.string(), "a new folder");
    }
  }
  ~NewFolder() {
    std::error_code ignored;
    fs::remove_all(partial_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const fs::path& path() const { return partial_; }

  void finish() const {
    std::error_code error;
    fs::rename(partial_, destination_, error);
    if (error) throw IoError(destination_.string(), "cannot be given its name: " + error.message());
    sync_folder(partial_.parent_path());
  }

 private:
  fs::path destination_;
  fs::path partial_;
};

/// A name without a trailing slash, which has no last part.
fs::path without_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

class ConvertCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "convert",
            .purpose =
                "Writes a model as a new Hugging Face folder: another dtype, other weight files; the tokenizer "
                "goes along.",
            .positionals = {{.name = "IN", .help = "A Hugging Face folder, a checkpoint, or a run folder."},
                            {.name = "OUT", .help = "The new folder; must not exist."}},
            .example = "litespark convert runs/5m exported/5m-bf16 --dtype=bf16 --shard_mib=2048"};
  }

  void visit(Fields& fields) override {
    fields.add(
        {.path = "dtype",
         .value = &dtype_,
         .help = "Of every tensor. same: bf16 stays bf16, anything else becomes fp32. fp32 of a bf16 checkpoint takes "
                 "its fp32 masters; bf16 rounds to nearest even.",
         .choices = {"same", "fp32", "bf16"}});
    fields.add({.path = "shard_mib",
                .value = &shard_mib_,
                .help = "Most weights in one file; a model that needs several gets an index. One tensor is never cut.",
                .unit = "MiB",
                .range = between(1, 1 << 24)});
  }

  ExitCode run(const CommandLine& line) override {
    const fs::path in = resolve_model_folder(line.positionals.at(0));
    const fs::path out = without_slash(line.positionals.at(1));
    const NewFolder folder(out);
    const ModelValues model(in);
    if (model.config().positions == Positions::kAlibi) {
      throw ConfigError("IN", "is a model with ALiBi, which Hugging Face's config.json of a llama cannot express",
                        in.string(), "a model with rotary positions",
                        "its own folder is read by litespark, and by no other program");
    }
    const DType dtype = dtype_ == TargetDType::kAsItIs ? model.own_dtype()
                        : dtype_ == TargetDType::kF32  ? DType::kF32
                                                       : DType::kBF16;
    write(model, in, folder.path(), dtype);
    folder.finish();
    std::cout << out.string() << ": " << family_name(model.config().family) << ", "
              << count_text(model.params().num_parameters) << " parameters in " << dtype_name(dtype)
              << (dtype == DType::kF32 && model.has_masters() ? ", from the masters" : "") << ", "
              << rounding_text(model, dtype) << "\n";
    return ExitCode::kDone;
  }

 private:
  void write(const ModelValues& model, const fs::path& in, const fs::path& out, DType dtype) {
    std::vector<float> values;
    const ParamSpec* loaded = nullptr;
    const ProvidePart provide = [&](const ParamSpec& param, const ParamPart& part, const ConsumeValues& consume) {
      if (loaded != &param) model.read(param, dtype, values);
      loaded = &param;
      const auto count = static_cast<size_t>(part.shape.num_elements());
      const size_t row_elements = count / static_cast<size_t>(part.shape[0]);
      const auto piece =
          std::span<const float>(values).subspan(static_cast<size_t>(part.first_row) * row_elements, count);
      if (dtype == DType::kBF16) count_rounded(piece);
      consume(piece);
    };
    write_hf_folder(out, model.config(), model.params(), provide,
                    {.dtype = dtype, .max_shard_bytes = shard_mib_ << 20, .tokenizer_folder = in});
  }

  void count_rounded(std::span<const float> values) {
    num_rounded_ += std::count_if(values.begin(), values.end(),
                                  [](float value) { return to_float(to_bf16(value)) != value && value == value; });
  }

  std::string rounding_text(const ModelValues& model, DType dtype) const {
    if (num_rounded_ > 0) return count_text(num_rounded_) + " values rounded";
    return model.has_f64() && dtype == DType::kF32 ? "rounded from f64" : "every value as it was";
  }

  TargetDType dtype_ = TargetDType::kAsItIs;
  int64_t shard_mib_ = 5120;
  int64_t num_rounded_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_convert_command() {
  return std::make_unique<ConvertCommand>();
}

}  // namespace litespark::cli
