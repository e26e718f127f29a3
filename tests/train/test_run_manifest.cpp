// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"
#include "train/run_manifest.h"

namespace litespark {
namespace {

nlohmann::json read(const std::filesystem::path& path) {
  return nlohmann::json::parse(test::file_text(path));
}

TEST(RunManifest, EveryStartIsKeptWithAllItsFacts) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "manifest.json";
  append_run_start(path, {.time = "2026-01-02T03:04:05Z",
                          .command = {"train", "a \"b\".toml"},
                          .versions = {{"litespark", "1"}},
                          .hardware = {{"cpu", "x"}},
                          .hashes = {{"config", "ab"}},
                          .tuning = {{"matmul", "3"}}});
  append_run_start(path, {.time = "later", .from_step = 7});
  const nlohmann::json manifest = read(path);
  EXPECT_EQ(manifest["format"], 1);
  ASSERT_EQ(manifest["starts"].size(), 2u);
  const nlohmann::json& first = manifest["starts"][0];
  EXPECT_EQ(first["command"][1], "a \"b\".toml");
  EXPECT_EQ(first["versions"]["litespark"], "1");
  EXPECT_EQ(first["hardware"]["cpu"], "x");
  EXPECT_EQ(first["hashes"]["config"], "ab");
  EXPECT_EQ(first["tuning"]["matmul"], "3");
  EXPECT_EQ(first["from_step"], 0);
  EXPECT_EQ(manifest["starts"][1]["from_step"], 7);
}

TEST(RunManifest, ARunThatStartsAgainAndAgainKeepsItsFirstAndItsNewestStarts) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "manifest.json";
  for (int64_t step = 0; step < kMostStarts + 3; ++step) append_run_start(path, {.from_step = step});
  const nlohmann::json starts = read(path)["starts"];
  ASSERT_EQ(starts.size(), static_cast<size_t>(kMostStarts));
  EXPECT_EQ(starts.front()["from_step"], 0);
  EXPECT_EQ(starts.back()["from_step"], kMostStarts + 2);
}

TEST(RunManifest, BytesThatAreNoTextStillGiveJson) {
  const test::TemporaryFolder folder;
  append_run_start(folder.path() / "manifest.json", {.command = {"\xff"}});
  EXPECT_NO_THROW(read(folder.path() / "manifest.json"));
}

TEST(RunManifest, AnotherFileOfThatNameIsNotOverwritten) {
  const test::TemporaryFolder folder;
  for (const char* text : {"{", "[]", "{\"format\": 2, \"starts\": []}", "{\"format\": 1}"}) {
    const auto path = folder.write("manifest.json", text);
    const std::string message = error_text<DataError>([&] { append_run_start(path, {}); });
    EXPECT_TRUE(contains(message, "is no run's manifest")) << text << message;
    EXPECT_TRUE(contains(message, "move it away to go on")) << text << message;
    EXPECT_EQ(test::file_text(path), text);
  }
}

}  // namespace
}  // namespace litespark
