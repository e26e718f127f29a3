// SPDX-License-Identifier: Apache-2.0
// fault:D1, fault:D3, fault:D10: refusing a hostile file takes at most 64 MiB beside twice the file's size, measured as
// the peak of a child process.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "core/error.h"
#include "io/hf_index.h"
#include "io/safetensors.h"
#include "support/safetensors_bytes.h"
#include "support/sanitizers.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;
using test::safetensors_bytes;

constexpr int64_t kMib = int64_t{1} << 20;

int64_t peak_kib() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

struct Outcome {
  bool is_refused = false;
  int64_t growth_bytes = 0;
};

/// Runs `read` in a child and says by how much the child's peak grew.
Outcome in_child(const std::function<void()>& read) {
  ::malloc_trim(0);  // what earlier tests have freed must not hide what this one takes
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    const int64_t before = peak_kib();
    Outcome outcome;
    try {
      read();
    } catch (const DataError&) {
      outcome.is_refused = true;
    } catch (const ConfigError&) {
      outcome.is_refused = true;
    }
    outcome.growth_bytes = (peak_kib() - before) * 1024;
    const ssize_t count = ::write(pipe_ends[1], &outcome, sizeof(outcome));
    ::_exit(count == static_cast<ssize_t>(sizeof(outcome)) ? 0 : 1);
  }
  Outcome outcome;
  const ssize_t count = ::read(pipe_ends[0], &outcome, sizeof(outcome));
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  EXPECT_EQ(count, static_cast<ssize_t>(sizeof(outcome))) << "the child died with status " << status;
  return outcome;
}

std::string repeated(std::string_view unit, int64_t bytes) {
  std::string text;
  text.reserve(static_cast<size_t>(bytes) + unit.size());
  while (static_cast<int64_t>(text.size()) < bytes) text += unit;
  return text;
}

/// Distinct keys of about `bytes` bytes in all: "<number>" then `value` then a comma.
std::string many_keys(std::string_view value, int64_t bytes) {
  std::string text;
  for (int i = 0; static_cast<int64_t>(text.size()) < bytes; ++i) {
    text += '"' + std::to_string(i) + "\":";
    text += value;
    text += ',';
  }
  text.pop_back();
  return text;
}

void expect_small(const char* what, const std::function<std::string()>& make,
                  const std::function<void(const fs::path&)>& read) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  folder.write("file", make());
  const auto file_bytes = static_cast<int64_t>(fs::file_size(path));
  const Outcome outcome = in_child([&] { read(path); });
  EXPECT_TRUE(outcome.is_refused) << what;
  EXPECT_LE(outcome.growth_bytes, 64 * kMib + 2 * file_bytes) << what;
  EXPECT_GE(outcome.growth_bytes, 0) << what;
}

TEST(RefusalMemory, SeesWhatAChildTakes) {
  if (test::kHasSanitizersMalloc) GTEST_SKIP() << "sanitizers keep freed memory";
  const Outcome outcome = in_child([] {
    const std::string text(static_cast<size_t>(100 * kMib), 'x');
    throw DataError("test", text.substr(0, 1));
  });
  EXPECT_TRUE(outcome.is_refused);
  EXPECT_GT(outcome.growth_bytes, 90 * kMib);
}

TEST(RefusalMemory, IsSmallForSafetensors) {  // fault:D1
  if (test::kHasSanitizersMalloc) GTEST_SKIP() << "sanitizers keep freed memory";
  const auto open = [](const fs::path& path) { SafetensorsFile::open(path); };
  const auto refuse = [&](const char* what, const std::function<std::string()>& header) {
    expect_small(
        what, [&] { return safetensors_bytes(header()); }, open);
  };
  constexpr int64_t kLarge = 12 * kMib;
  refuse("blanks", [] { return "{" + repeated(" ", kLarge) + "}"; });
  refuse("one string", [] { return "{\"" + repeated("x", kLarge) + "\":1}"; });
  refuse("many strings",
         [] { return R"({"__metadata__":{)" + many_keys("\"" + repeated("y", 60000) + "\"", 5 * kLarge) + "}"; });
  refuse("many notes", [] { return R"({"__metadata__":{)" + many_keys("\"\"", kLarge) + "}}"; });
  refuse("many tensors",
         [] { return "{" + many_keys(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})", kLarge) + "}"; });
  refuse("long lists", [] { return R"({"a":{"dtype":"U8","shape":[)" + repeated("1,", kLarge) + "1]}}"; });
  refuse("nested", [] { return "{\"a\":" + repeated("[", kLarge); });
  refuse("one number", [] { return R"({"a":{"dtype":"U8","shape":[)" + repeated("1", kLarge) + "]}}"; });
  expect_small(
      "a length that lies", [] { return safetensors_bytes("{}", repeated("x", kMib), 100000000); }, open);
  expect_small(
      "a small file with a huge tensor",
      [] {
        return safetensors_bytes(R"({"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})",
                                 "x");
      },
      open);
}

TEST(RefusalMemory, IsSmallForJson) {
  if (test::kHasSanitizersMalloc) GTEST_SKIP() << "sanitizers keep freed memory";
  constexpr int64_t kMost = 5 * kMib;
  using Maker = std::function<std::string()>;
  const std::vector<std::pair<const char*, Maker>> texts = {
      {"too long", [] { return "[" + repeated("0,", 17 * kMib) + "0]"; }},
      {"numbers", [] { return R"({"weight_map":[)" + repeated("0,", kMost) + "0]}"; }},
      {"many keys", [] { return R"({"weight_map":{)" + many_keys("0", kMost) + "}}"; }},
      {"keys below the limit", [] { return R"({"weight_map":{)" + many_keys("{}", 2 * kMib) + ",\"x\":0}}"; }},
      {"lists below the limit", [] { return R"({"weight_map":[)" + repeated("[],", 740000) + "[]]}"; }},
      {"floats below the limit", [] { return R"({"weight_map":[)" + repeated("1e5,", kMib) + "0]}"; }},
      {"strings", [] { return R"({"weight_map":[)" + repeated("\"" + repeated("z", 100000) + "\",", kMost) + "0]}"; }},
      {"nested", [] { return repeated("[", kMost); }},
      {"broken at the end", [] { return "[\"" + repeated("x", 1000000) + "\"," + repeated(R"("",)", kMib) + "\xff"; }},
  };
  for (const auto& [what, make] : texts) {
    expect_small(what, make, [](const fs::path& path) { read_hf_index(path); });
  }
}

}  // namespace
}  // namespace litespark
