// SPDX-License-Identifier: Apache-2.0
// Files that are either whole or absent: reads check that the bytes are there, writes go to a temporary file that is
// synced and renamed. Everything passes through file_system(), so that tests can make any call fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace litespark {

enum class Symlinks : uint8_t {
  kFollow,  ///< model folders: hubs keep their files as links into a store
  kRefuse,  ///< checkpoints: nothing there is a link unless somebody put it there
};

/// A regular file, open for reading. Directories, FIFOs and devices are refused without blocking.
class InputFile {
 public:
  /// Throws IoError when the file cannot be opened, DataError when it is not a regular file.
  explicit InputFile(const std::filesystem::path& path, Symlinks symlinks = Symlinks::kFollow);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& name() const { return name_; }
  /// Size when it was opened.
  int64_t size() const { return size_; }
  /// Throws DataError when the file's size or time of change is no longer what it was when it was opened.
  void require_unchanged() const;
  /// Fills `out` from byte `offset` on; throws DataError when the file ends before, IoError when the read fails.
  void read_at(int64_t offset, std::span<std::byte> out) const;

 private:
  std::string name_;
  int descriptor_ = -1;
  int64_t size_ = 0;
  int64_t changed_nanoseconds_ = 0;  ///< time of the last change of content, when it was opened
};

/// A file that appears under its name only when it is complete: written under a temporary name beside it, then fsync,
/// close, rename, fsync of the folder. Without commit() nothing is left behind. After a failed call the whole file must
/// be written again: a second fsync could report success for pages that the kernel has dropped.
class AtomicFile {
 public:
  /// Throws IoError when the temporary file cannot be made, or when something that is not a regular file has the name.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends; throws IoError naming the file and the bytes written so far.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  int64_t bytes_written() const { return bytes_written_; }
  void commit();

 private:
  [[noreturn]] void fail(const char* what, int error) const;
  void abandon() noexcept;

  std::string path_;
  std::string temporary_path_;
  int descriptor_ = -1;
  int64_t bytes_written_ = 0;
};

/// A log that grows at its end, through whatever crashes lie between; made when absent.
class AppendFile {
 public:
  /// Throws IoError when it cannot be opened or when something that is not a regular file has the name: a FIFO would
  /// wait for its reader.
  explicit AppendFile(const std::filesystem::path& path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  const std::string& name() const { return path_; }
  /// Size when it was opened; 0: it is new.
  int64_t size_before() const { return size_before_; }
  /// Hands the text to the system; throws IoError when not all of it was taken.
  void append(std::string_view text);

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t size_before_ = 0;
};

/// False only when nothing has the name. What cannot be looked at (no permission, a loop of links) is there, so that
/// opening it says why it cannot be read.
bool is_present(const std::filesystem::path& path);

/// The whole file; DataError when it is longer than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, int64_t max_bytes, Symlinks symlinks = Symlinks::kFollow);

/// Writes the file atomically.
void write_text_file(const std::filesystem::path& path, std::string_view text);

/// Copies byte for byte, atomically, in pieces.
void copy_file_bytes(const std::filesystem::path& from, const std::filesystem::path& to);

/// Makes the names in a folder durable (fsync of the folder); throws IoError.
void sync_folder(const std::filesystem::path& folder);

/// XXH3-128 of the file's bytes as 32 hexadecimal digits, as `xxhsum -H2` prints it; read in pieces.
std::string hash_file(const std::filesystem::path& path, Symlinks symlinks = Symlinks::kFollow);

/// The same of bytes in memory.
std::string hash_bytes(std::span<const std::byte> bytes);
/// The same at the end of `out`, which need not grow when it has the room.
void append_hash(std::string& out, std::span<const std::byte> bytes);

/// Bytes free where `folder` (which must exist) is stored; throws IoError.
int64_t free_bytes(const std::filesystem::path& folder);

/// Joins a name that came from a file onto a folder. Only a plain file name or a relative path downwards passes:
/// absolute paths, "..", empty parts and control characters are refused with a DataError that names `where`.
std::filesystem::path path_inside(const std::filesystem::path& folder, std::string_view name, std::string_view where);

/// Throws DataError unless `path`, every link resolved, lies inside `folder`.
void require_inside(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace litespark
