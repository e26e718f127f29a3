// SPDX-License-Identifier: Apache-2.0
#include "io/sealed_folder.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "io/file.h"
#include "io/file_system.h"
#include "io/json_fields.h"
#include "io/json_file.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kPartialPrefix = ".partial-";
constexpr int kFormatVersion = 1;
constexpr int64_t kMaxMarkerBytes = 4096;

std::string hash_text(std::string_view text) {
  return hash_bytes(std::as_bytes(std::span(text)));
}

std::string marker_text(const std::string& manifest) {
  return "litespark sealed folder " + std::to_string(kFormatVersion) + "\nmanifest " + hash_text(manifest) + "\n";
}

/// Names of the folder's entries but manifest and marker; anything that is not a plain file is refused.
std::vector<std::string> plain_files(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.symlink_status().type() != fs::file_type::regular) {
      throw DataError(entry.path().string(), "is not a plain file; nothing else belongs into a sealed folder");
    }
    if (name != kManifest && name != kCompleteMarker) names.push_back(name);
  }
  return names;
}

SealedManifest parse_manifest(const std::string& text, const std::string& where) {
  const nlohmann::json json = parse_json(text, where);
  const JsonFields fields(json, where);
  if (fields.get_int("format_version") != kFormatVersion) {
    throw DataError(where, "format_version is not one that this version reads", fields.get_int("format_version"),
                    kFormatVersion, "use the version of Litespark that wrote it, or a newer one");
  }
  SealedManifest manifest{.save_id = fields.get_string("save_id"), .files = {}};
  const nlohmann::json* const files = fields.find_object("files");
  if (files == nullptr) throw DataError(where, "has no files");
  for (const auto& [name, value] : files->items()) {
    const JsonFields file(value, where, "files." + name + ".");
    manifest.files[name] = {.bytes = file.get_int("bytes"), .hash = file.get_string("xxh3_128")};
  }
  return manifest;
}

void check_size(const fs::path& path, const SealedFile& expected) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (error) throw DataError(path.string(), "is missing");
  if (std::cmp_not_equal(bytes, expected.bytes)) {
    throw DataError(path.string(), "has the wrong size", bytes, expected.bytes,
                    "the file is truncated or was replaced");
  }
}

const SealedFile& covered(const fs::path& folder, const SealedManifest& manifest, const std::string& name) {
  const auto found = manifest.files.find(name);
  if (found == manifest.files.end()) throw DataError((folder / name).string(), "is not part of the sealed folder");
  return found->second;
}

void require_hash(const fs::path& path, const std::string& hash, const SealedFile& expected) {
  if (hash == expected.hash) return;
  throw DataError(path.string(), "is damaged or belongs to another save: content hash differs", hash, expected.hash);
}

}  // namespace

SealedFolderWriter::SealedFolderWriter(const fs::path& destination, std::string save_id)
    : destination_(fs::absolute(destination)),
      partial_(destination_.parent_path() / (kPartialPrefix + destination_.filename().string() + "-" + save_id)),
      save_id_(std::move(save_id)) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(destination_, error))) {
    throw IoError(destination_.string(), "exists already; a sealed folder is never overwritten");
  }
  if (!fs::create_directories(partial_, error) || error) {
    throw IoError(partial_.string(), "cannot be made: " + (error ? error.message() : "it exists already"));
  }
}

SealedFolderWriter::~SealedFolderWriter() {
  if (sealed_) return;
  std::error_code error;
  fs::remove_all(partial_, error);
}

void SealedFolderWriter::seal() {
  nlohmann::json files = nlohmann::json::object();
  for (const std::string& name : plain_files(partial_)) {
    const fs::path path = partial_ / name;
    files[name] = {{"bytes", static_cast<int64_t>(fs::file_size(path))}, {"xxh3_128", hash_file(path)}};
  }
  const std::string manifest =
      nlohmann::json{{"format_version", kFormatVersion}, {"save_id", save_id_}, {"files", files}}.dump(1);
  write_text_file(partial_ / kManifest, manifest);
  write_text_file(partial_ / kCompleteMarker, marker_text(manifest));
  sync_folder(partial_);
  if (file_system().rename(partial_.c_str(), destination_.c_str()) != 0) {
    throw IoError(destination_.string(), std::string("cannot be renamed into place: ") + std::strerror(errno));
  }
  sealed_ = true;
  sync_folder(destination_.parent_path());
}

bool is_sealed(const fs::path& folder) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(folder / kCompleteMarker, error).type();
  // A folder that may not be entered is no incomplete one: that would be cleared away or written anew.
  if (type == fs::file_type::none)
    throw IoError((folder / kCompleteMarker).string(), "cannot be looked at: " + error.message());
  return type == fs::file_type::regular;
}

SealedManifest check_manifest(const fs::path& folder) {
  if (!is_sealed(folder)) {
    throw DataError(folder.string(), "is not complete: it has no COMPLETE marker, so its writer was interrupted");
  }
  const std::string manifest_text = read_text_file(folder / kManifest, JsonLimits{}.max_bytes, Symlinks::kRefuse);
  const std::string marker = read_text_file(folder / kCompleteMarker, kMaxMarkerBytes, Symlinks::kRefuse);
  if (marker != marker_text(manifest_text)) {
    throw DataError((folder / kCompleteMarker).string(), "does not vouch for manifest.json: one of them is damaged");
  }
  return parse_manifest(manifest_text, (folder / kManifest).string());
}

SealedManifest check_seal(const fs::path& folder) {
  SealedManifest manifest = check_manifest(folder);
  for (const std::string& name : plain_files(folder)) (void)covered(folder, manifest, name);
  for (const auto& [name, file] : manifest.files) check_size(path_inside(folder, name, kManifest), file);
  return manifest;
}

void check_sealed_file(const fs::path& folder, const SealedManifest& manifest, const std::string& name) {
  const SealedFile& expected = covered(folder, manifest, name);
  const fs::path path = path_inside(folder, name, kManifest);
  require_hash(path, hash_file(path, Symlinks::kRefuse), expected);
}

std::string read_sealed_text(const fs::path& folder, const SealedManifest& manifest, const std::string& name,
                             int64_t max_bytes) {
  const SealedFile& expected = covered(folder, manifest, name);
  const fs::path path = path_inside(folder, name, kManifest);
  std::string text = read_text_file(path, max_bytes, Symlinks::kRefuse);
  require_hash(path, hash_text(text), expected);
  return text;
}

SealedManifest check_sealed_folder(const fs::path& folder) {
  SealedManifest manifest = check_seal(folder);
  for (const auto& [name, file] : manifest.files) check_sealed_file(folder, manifest, name);
  return manifest;
}

int remove_partial_folders(const fs::path& parent) {
  int removed = 0;
  std::error_code error;
  if (!fs::is_directory(parent, error)) return 0;
  std::vector<fs::path> partial;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent)) {
    if (entry.path().filename().string().starts_with(kPartialPrefix)) partial.push_back(entry.path());
  }
  for (const fs::path& path : partial) {
    fs::remove_all(path, error);
    if (error) throw IoError(path.string(), "an interrupted save cannot be removed: " + error.message());
    ++removed;
  }
  return removed;
}

}  // namespace litespark
