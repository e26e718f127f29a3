// SPDX-License-Identifier: Apache-2.0
// Refuses JSON documents that name code to be loaded. Keys that we do not know are ignored; these are not, for a folder
// that carries them expects its reader to run something (CVE-2026-4372).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace litespark {

/// Throws DataError naming the key when the document has, at any depth, a key that names code (auto_map,
/// custom_pipelines, trust_remote_code, ...) or a string that is a URL, or an implementation key that names a
/// repository. Null, false and empty values of such keys pass.
void refuse_code_keys(const nlohmann::json& document, std::string_view where);

}  // namespace litespark
