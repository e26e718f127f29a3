// SPDX-License-Identifier: Apache-2.0
// fault:D10, fault:D11: any bytes as a config.json. Refused with an error of ours, or a model whose config is read back
// equal after it was written.
#include "core/error.h"
#include "io/hf_config.h"
#include "spec/param_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace litespark;
  ModelConfig config;
  std::string text;
  try {
    config = parse_hf_config({reinterpret_cast<const char*>(data), size}, "config.json");
    config.validate();
    text = hf_config_json(config, config.folder_dtype);
  } catch (const DataError&) {
    return 0;
  } catch (const ConfigError&) {
    return 0;
  }
  if (!(parse_hf_config(text, "again") == config)) throw InternalError("fuzz_hf_config", "the config does not survive");
  if (config.num_hidden_layers < 100) make_param_table(config);
  return 0;
}
