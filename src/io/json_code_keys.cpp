// SPDX-License-Identifier: Apache-2.0
// A walk over the document; depth is bounded by the JSON limits that it was parsed with.
#include "io/json_code_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/quote.h"

namespace litespark {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 10> kCodeKeys = {
    "auto_map",          "custom_pipelines", "custom_pipeline", "custom_generate", "custom_code",
    "trust_remote_code", "remote_code",      "code_revision",   "code_path",       "module_path"};

bool is_empty_value(const json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

bool names_implementation(std::string_view key) {
  return key.find("implementation") != std::string_view::npos || key.find("kernel") != std::string_view::npos;
}

struct Walk {
  std::string_view where;

  [[noreturn]] void refuse(const std::string& key, std::string_view what) const {
    throw DataError(where, fmt::format("key {} {}", quote(key), what), "a value", "a configuration without code",
                    "remove the key if the model works without it");
  }

  void visit(const json& value, const std::string& key) const {
    if (value.is_object()) {
      for (const auto& [name, inner] : value.items()) {
        const bool is_code = std::find(kCodeKeys.begin(), kCodeKeys.end(), name) != kCodeKeys.end();
        if (is_code && !is_empty_value(inner)) refuse(name, "names code, which is never loaded");
        visit(inner, name);
      }
    } else if (value.is_array()) {
      for (const json& inner : value) visit(inner, key);
    } else if (value.is_string()) {
      const auto& text = value.get_ref<const std::string&>();
      if (text.find("://") != std::string::npos) refuse(key, "holds a URL, which is never fetched");
      if (names_implementation(key) && text.find_first_of("/:\\") != std::string::npos) {
        refuse(key, "names code, which is never loaded");
      }
    }
  }
};

}  // namespace

void refuse_code_keys(const json& document, std::string_view where) {
  Walk{where}.visit(document, "");
}

}  // namespace litespark
