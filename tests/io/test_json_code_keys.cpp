// SPDX-License-Identifier: Apache-2.0
// fault:D11, CVE-2026-4372: a configuration that names code is refused; what only looks like it passes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "io/json_code_keys.h"
#include "support/error_text.h"

namespace litespark {
namespace {

TEST(JsonCodeKeys, RefusesKeysThatNameCodeAtAnyDepth) {
  for (const char* const text : {
           R"({"auto_map": {"AutoModel": "modeling_evil.Model"}})",
           R"({"custom_pipelines": {"text-generation": {"impl": "x.Y"}}})",
           R"({"trust_remote_code": true})",
           R"({"a": [{"auto_map": {"AutoConfig": "owner/repository--configuration.Config"}}]})",
           R"({"custom_generate": "owner/repository"})",
           R"({"code_revision": "main"})",
           R"({"_attn_implementation_internal": "owner/kernel"})",
           R"({"_attn_implementation": "owner/kernel:entry"})",
           R"({"text_config": {"attn_implementation": "kernels-community/attention"}})",
           R"({"download": "https://example.org/weights"})",
           R"({"list": ["file://etc/passwd"]})",
       }) {
    const std::string message =
        error_text<DataError>([&] { refuse_code_keys(nlohmann::json::parse(text), "folder/config.json"); });
    EXPECT_TRUE(contains(message, "[folder/config.json] key \"")) << text;
  }
}

TEST(JsonCodeKeys, LetsOrdinaryAndEmptyKeysPass) {
  for (const char* const text : {
           R"({"auto_map": null, "trust_remote_code": false, "custom_pipelines": {}})",
           R"({"_name_or_path": "owner/model", "transformers_version": "5.17.0"})",
           R"({"_attn_implementation": "sdpa", "_attn_implementation_autoset": true, "unknown": {"nested": [1]}})",
           R"({"_name_or_path": "/home/somebody/model"})",
       }) {
    EXPECT_NO_THROW(refuse_code_keys(nlohmann::json::parse(text), "config.json")) << text;
  }
}

}  // namespace
}  // namespace litespark
