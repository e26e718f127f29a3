// SPDX-License-Identifier: Apache-2.0
// A folder that is either whole or absent. Written under a partial name; sealed with a manifest of sizes and hashes and
// a marker that vouches for the manifest; renamed into place last. A reader believes nothing that the seal does not
// cover.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace litespark {

struct SealedFile {
  int64_t bytes = 0;
  std::string hash;  ///< XXH3-128
};

struct SealedManifest {
  std::string save_id;  ///< of this save alone: files of two saves never mix unnoticed
  std::map<std::string, SealedFile> files;
};

/// Name of the marker file, written last.
inline constexpr const char* kCompleteMarker = "COMPLETE";

class SealedFolderWriter {
 public:
  /// Makes ".partial-NAME-SAVE_ID" beside `destination`, which must not exist. Throws IoError.
  SealedFolderWriter(const std::filesystem::path& destination, std::string save_id);
  /// Removes the partial folder unless it was sealed.
  ~SealedFolderWriter();
  SealedFolderWriter(const SealedFolderWriter&) = delete;
  SealedFolderWriter& operator=(const SealedFolderWriter&) = delete;

  /// Write files here; plain files only, no subfolders.
  const std::filesystem::path& path() const { return partial_; }
  /// Hashes what was written, writes manifest and marker, renames. Everything is durable when it returns.
  void seal();

 private:
  std::filesystem::path destination_;
  std::filesystem::path partial_;
  std::string save_id_;
  bool sealed_ = false;
};

/// True when the marker is there: cheap, says nothing about damage. Throws IoError when that cannot be found out.
bool is_sealed(const std::filesystem::path& folder);

/// The manifest, held against the marker; DataError when either is damaged.
SealedManifest check_manifest(const std::filesystem::path& folder);

/// Holds the marker against the manifest and the files' names and sizes against both; reads no other content. Throws
/// DataError as check_sealed_folder does.
SealedManifest check_seal(const std::filesystem::path& folder);

/// Holds one file's content against what its folder's manifest says of it; DataError names it when it is damaged,
/// missing or not covered.
void check_sealed_file(const std::filesystem::path& folder, const SealedManifest& manifest, const std::string& name);

/// Text of a file of a sealed folder, its content checked.
std::string read_sealed_text(const std::filesystem::path& folder, const SealedManifest& manifest,
                             const std::string& name, int64_t max_bytes);

/// Reads every file and holds it against the seal. Throws DataError naming the first file that is missing, unexpected,
/// of another size or of another content; links and special files are refused.
SealedManifest check_sealed_folder(const std::filesystem::path& folder);

/// Deletes what interrupted writers left in `parent`; returns how many partial folders went.
int remove_partial_folders(const std::filesystem::path& parent);

}  // namespace litespark
