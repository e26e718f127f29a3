// SPDX-License-Identifier: Apache-2.0
// Reading and atomic writing over file_system(); large files pass in pieces of 1 MiB.
#include "io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/quote.h"
#include "io/file_system.h"

namespace litespark {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
/// Linux transfers at most 0x7ffff000 bytes a call; smaller calls keep signals responsive.
constexpr size_t kMaxCallBytes = size_t{64} << 20;

std::string reason(int error) {
  return std::generic_category().message(error);
}

const char* kind_name(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

int64_t change_time(const struct stat& status) {
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

std::string folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path, Symlinks symlinks) : name_(path.string()) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | (symlinks == Symlinks::kRefuse ? O_NOFOLLOW : 0);
  descriptor_ = file_system().open(name_.c_str(), flags, 0);
  if (descriptor_ < 0) {
    const int error = errno;
    if (error == ELOOP) throw DataError(name_, "is a symbolic link where a regular file is expected");
    throw IoError(name_, "cannot open: " + reason(error));
  }
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    file_system().close(std::exchange(descriptor_, -1));
    throw DataError(name_, "cannot be read", kind_name(status.st_mode), "a regular file");
  }
  size_ = status.st_size;
  changed_nanoseconds_ = change_time(status);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) file_system().close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : name_(std::move(other.name_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      changed_nanoseconds_(other.changed_nanoseconds_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(changed_nanoseconds_, other.changed_nanoseconds_);
  return *this;
}

void InputFile::require_unchanged() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) throw IoError(name_, "cannot be looked at: " + reason(errno));
  if (status.st_size == size_ && change_time(status) == changed_nanoseconds_) return;
  throw DataError(name_, "was changed while it was in use", fmt::format("{} bytes", status.st_size),
                  fmt::format("the {} bytes that were there", size_));
}

void InputFile::read_at(int64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const size_t wanted = std::min(out.size() - done, kMaxCallBytes);
    const ssize_t count = file_system().pread(descriptor_, out.data() + done, wanted,
                                              static_cast<off_t>(offset) + static_cast<off_t>(done));
    if (count < 0)
      throw IoError(name_, fmt::format("cannot read {} bytes at {}: {}", out.size(), offset, reason(errno)));
    if (count == 0) {
      throw DataError(name_, "ends too early", fmt::format("{} bytes", offset + static_cast<int64_t>(done)),
                      fmt::format("{} bytes", offset + static_cast<int64_t>(out.size())));
    }
    done += static_cast<size_t>(count);
  }
}

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(path.string()) {
  static std::atomic<int> counter{0};
  struct stat status {};
  if (::lstat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw IoError(path_, "cannot be written", kind_name(status.st_mode), "a regular file or nothing");
  }
  temporary_path_ = fmt::format("{}.tmp-{}-{}", path_, ::getpid(), counter++);
  // O_EXCL also refuses a link that somebody has put under the temporary name.
  descriptor_ = file_system().open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
  if (descriptor_ < 0) fail("cannot create", errno);
}

AtomicFile::~AtomicFile() {
  abandon();
}

void AtomicFile::fail(const char* what, int error) const {
  throw IoError(path_, fmt::format("{} after {} bytes: {}", what, bytes_written_, reason(error)));
}

void AtomicFile::abandon() noexcept {
  if (descriptor_ >= 0) file_system().close(std::exchange(descriptor_, -1));
  if (!temporary_path_.empty()) file_system().unlink(temporary_path_.c_str());
  temporary_path_.clear();
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (descriptor_ < 0) throw InternalError(path_, "write after commit");
  while (!bytes.empty()) {
    const ssize_t count = file_system().write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxCallBytes));
    if (count <= 0) fail("cannot write", count < 0 ? errno : EIO);
    bytes_written_ += count;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::commit() {
  if (descriptor_ < 0) throw InternalError(path_, "commit after commit");
  if (file_system().fsync(descriptor_) != 0) fail("cannot sync", errno);
  // A failed close has released the descriptor all the same.
  if (file_system().close(std::exchange(descriptor_, -1)) != 0) fail("cannot close", errno);
  if (file_system().rename(temporary_path_.c_str(), path_.c_str()) != 0) fail("cannot rename", errno);
  temporary_path_.clear();
  sync_folder(folder_of(path_));
}

AppendFile::AppendFile(const std::filesystem::path& path) : path_(path.string()) {
  const auto require_regular = [&](const struct stat& status) {
    if (S_ISREG(status.st_mode)) return;
    throw IoError(path_, "cannot be written", kind_name(status.st_mode), "a regular file or nothing");
  };
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0) require_regular(status);
  descriptor_ = file_system().open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY, 0644);
  if (descriptor_ < 0) throw IoError(path_, "cannot be opened for appending: " + reason(errno));
  size_before_ = ::fstat(descriptor_, &status) == 0 ? status.st_size : 0;
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) file_system().close(descriptor_);
}

void AppendFile::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = file_system().write(descriptor_, text.data(), text.size());
    if (count <= 0) throw IoError(path_, "cannot be appended to: " + reason(count < 0 ? errno : EIO));
    text.remove_prefix(static_cast<size_t>(count));
  }
}

bool is_present(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) || error;
}

std::string read_text_file(const std::filesystem::path& path, int64_t max_bytes, Symlinks symlinks) {
  const InputFile file(path, symlinks);
  if (file.size() > max_bytes) {
    throw DataError(file.name(), "is too long", fmt::format("{} bytes", file.size()),
                    fmt::format("at most {}", max_bytes));
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void copy_file_bytes(const std::filesystem::path& from, const std::filesystem::path& to) {
  const InputFile input(from);
  AtomicFile output(to);
  std::vector<std::byte> piece(kPieceBytes);
  for (int64_t offset = 0; offset < input.size(); offset += static_cast<int64_t>(kPieceBytes)) {
    const auto count = static_cast<size_t>(std::min<int64_t>(input.size() - offset, kPieceBytes));
    input.read_at(offset, std::span(piece).first(count));
    output.write(std::span<const std::byte>(piece).first(count));
  }
  output.commit();
}

void sync_folder(const std::filesystem::path& folder) {
  const std::string name = folder.string();
  const int descriptor = file_system().open(name.c_str(), O_RDONLY | O_DIRECTORY, 0);
  if (descriptor < 0) throw IoError(name, "cannot open the folder to sync it: " + reason(errno));
  const int result = file_system().fsync(descriptor);
  const int error = errno;
  file_system().close(descriptor);
  if (result != 0) throw IoError(name, "cannot sync the folder: " + reason(error));
}

namespace {

void append_hexadecimal(std::string& out, XXH128_hash_t hash) {
  fmt::format_to(std::back_inserter(out), "{:016x}{:016x}", hash.high64, hash.low64);
}

std::string hexadecimal(XXH128_hash_t hash) {
  std::string out;
  append_hexadecimal(out, hash);
  return out;
}

}  // namespace

std::string hash_file(const std::filesystem::path& path, Symlinks symlinks) {
  const InputFile file(path, symlinks);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_128bits_reset(state.get());
  std::vector<std::byte> piece(kPieceBytes);
  for (int64_t offset = 0; offset < file.size(); offset += static_cast<int64_t>(kPieceBytes)) {
    const auto count = static_cast<size_t>(std::min<int64_t>(file.size() - offset, kPieceBytes));
    file.read_at(offset, std::span(piece).first(count));
    XXH3_128bits_update(state.get(), piece.data(), count);
  }
  return hexadecimal(XXH3_128bits_digest(state.get()));
}

std::string hash_bytes(std::span<const std::byte> bytes) {
  return hexadecimal(XXH3_128bits(bytes.data(), bytes.size()));
}

void append_hash(std::string& out, std::span<const std::byte> bytes) {
  append_hexadecimal(out, XXH3_128bits(bytes.data(), bytes.size()));
}

int64_t free_bytes(const std::filesystem::path& folder) {
  const int64_t bytes = file_system().free_bytes(folder.c_str());
  if (bytes < 0) throw IoError(folder.string(), "cannot find out the free space: " + reason(errno));
  return bytes;
}

std::filesystem::path path_inside(const std::filesystem::path& folder, std::string_view name, std::string_view where) {
  const auto refuse = [&](const char* found) {
    throw DataError(where, fmt::format("file name {} is not allowed", quote(name)), found, "a file inside the folder");
  };
  if (name.empty()) refuse("an empty name");
  if (name.size() > 1024) refuse("a name of more than 1024 bytes");
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\') refuse("control characters or backslashes");
  }
  if (name.front() == '/') refuse("an absolute path");
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part == "..") refuse("a path that leaves the folder");
    if (part.empty() || part == ".") refuse("an empty path component");
    begin = end + 1;
  }
  return folder / std::filesystem::path(std::string(name));
}

void require_inside(const std::filesystem::path& path, const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path root = std::filesystem::canonical(folder, error);
  if (error) throw IoError(folder.string(), "cannot be resolved: " + error.message());
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) throw IoError(path.string(), "cannot be resolved: " + error.message());
  const auto [root_end, real_end] = std::mismatch(root.begin(), root.end(), real.begin(), real.end());
  if (root_end != root.end()) {
    throw DataError(path.string(), "leads out of its folder", real.string(), "a path below " + root.string());
  }
}

}  // namespace litespark
