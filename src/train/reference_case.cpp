// SPDX-License-Identifier: Apache-2.0
#include "train/reference_case.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.h"
#include "core/op/loss.h"
#include "io/hf_config.h"
#include "io/json_fields.h"
#include "io/json_file.h"

namespace litespark {
namespace {

std::vector<int32_t> read_ints(const SafetensorsFile& file, const std::string& name, int64_t expected) {
  const SafetensorsTensor& info = file.info(name);
  if (info.dtype != SafetensorsDType::kI32 || (expected >= 0 && info.num_elements() != expected)) {
    throw DataError(file.file_name() + ": " + name, "wrong dtype or size", info.num_elements(),
                    "I32 with " + std::to_string(expected) + " elements");
  }
  std::vector<int32_t> values(static_cast<size_t>(info.num_elements()));
  file.read(name, std::as_writable_bytes(std::span(values)));
  return values;
}

std::vector<double> read_numbers(const JsonFields& fields, const nlohmann::json& json, const char* name,
                                 int64_t count) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_array() || std::cmp_not_equal(found->size(), count)) {
    throw DataError(fields.label(name), "must be a list with one number a step");
  }
  std::vector<double> values;
  for (const auto& value : *found) {
    if (!value.is_number()) throw DataError(fields.label(name), "must hold numbers only");
    values.push_back(value.get<double>());
  }
  return values;
}

void read_causal_lm(const nlohmann::json& json, const std::string& where, const SafetensorsFile& tensors,
                    ReferenceCase& reference) {
  const JsonFields fields(json, where);
  reference.batch = fields.get_int("B");
  reference.length = fields.get_int("T");
  reference.steps = fields.get_int("steps");
  if (reference.batch <= 0 || reference.length <= 0 || reference.steps <= 0 || reference.steps > 100000 ||
      reference.batch > (int64_t{1} << 24) / reference.length) {
    throw DataError(where, "B, T and steps must be positive and B T at most 2^24");
  }
  reference.document_lengths.assign(static_cast<size_t>(reference.batch), reference.length);
  reference.has_update = true;
  reference.losses = read_numbers(fields, json, "losses", reference.steps);
  reference.grad_norms = read_numbers(fields, json, "grad_norms", reference.steps);
  const nlohmann::json* const optimizer = fields.find_object("optimizer");
  if (optimizer == nullptr) throw DataError(fields.label("optimizer"), "is missing");
  const JsonFields settings(*optimizer, where, "optimizer.");
  if (settings.get_string("name") != "adamw") {
    throw ConfigError(settings.label("name"), "not supported yet", settings.get_string("name"), "adamw");
  }
  const std::vector<double> betas = read_numbers(settings, *optimizer, "betas", 2);
  reference.lr = settings.get_real("lr");
  reference.beta1 = betas[0];
  reference.beta2 = betas[1];
  reference.eps = settings.get_real("eps");
  for (const double beta : betas) {
    if (!(beta >= 0 && beta < 1)) throw DataError(settings.label("betas"), "out of range", beta, "[0, 1)");
  }
  if (!(reference.eps > 0)) throw DataError(settings.label("eps"), "must be positive", reference.eps, "above 0");
  reference.weight_decay = settings.get_real("weight_decay");
  reference.clip_norm = settings.get_real("clip_norm");
  const int64_t num_tokens = reference.batch * reference.length;
  for (int64_t step = 0; step < reference.steps; ++step) {
    const std::string suffix = step == 0 ? "" : "." + std::to_string(step);
    reference.tokens.push_back(
        {read_ints(tensors, "input_ids" + suffix, num_tokens), read_ints(tensors, "labels" + suffix, num_tokens)});
  }
}

void read_packed_documents(const JsonFields& fields, const SafetensorsFile& tensors, ReferenceCase& reference) {
  const std::vector<int32_t> ids = read_ints(tensors, "input_ids", -1);
  const std::vector<int32_t> lengths = read_ints(tensors, "lengths", -1);
  int64_t total = 0;
  for (const int32_t length : lengths) {
    if (length <= 0)
      throw DataError(tensors.file_name() + ": lengths", "document lengths must be positive", length, "1 or more");
    reference.document_lengths.push_back(length);
    total += length;
  }
  if (total == 0 || std::cmp_not_equal(total, ids.size())) {
    throw DataError(tensors.file_name() + ": lengths", "must add up to the tokens of input_ids", total, ids.size());
  }
  reference.length = total;
  reference.losses = {fields.get_real("loss")};
  reference.tokens = {{ids, ids}};
}

}  // namespace

ReferenceCase read_reference_case(const std::filesystem::path& folder) {
  const std::string where = (folder / "case.json").string();
  const nlohmann::json json = read_json_file(where);
  if (!json.is_object()) throw DataError(where, "must hold an object");
  const JsonFields fields(json, where);
  ReferenceCase reference;
  reference.kind = fields.get_string("kind");
  if (reference.kind != "causal-lm" && reference.kind != "packed-documents") {
    throw ConfigError(fields.label("kind"), "not supported yet", reference.kind, "causal-lm or packed-documents");
  }
  reference.config = read_hf_config(folder / "config.json");
  const SafetensorsFile tensors = SafetensorsFile::open(folder / "case.safetensors");
  if (reference.kind == "causal-lm") {
    read_causal_lm(json, where, tensors, reference);
  } else {
    read_packed_documents(fields, tensors, reference);
  }
  return reference;
}

}  // namespace litespark
