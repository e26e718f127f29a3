// SPDX-License-Identifier: Apache-2.0
// Joules are on record once, whatever crash lies between.
#include <gtest/gtest.h>

#include <fstream>

#include "support/error_text.h"
#include "support/temporary_folder.h"
#include "train/energy_log.h"

namespace litespark {
namespace {

EnergyAccount stretch(double joules) {
  return {.joules = joules,
          .metered_seconds = 2,
          .method = EnergyMethod::kEstimated,
          .device_joules = {{"cpu", joules - 1}, {"memory", 1}}};
}

class EnergyLogTest : public testing::Test {
 protected:
  void write(const std::vector<double>& records) const {
    EnergyLog log(path_);
    for (const double joules : records) log.add(10, stretch(joules));
  }
  std::string text() const { return test::file_text(path_); }

  const test::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "energy.jsonl";
};

TEST_F(EnergyLogTest, ARecordHasTheDocumentedKeys) {
  const std::string line = energy_json(10, stretch(30));
  EXPECT_TRUE(line.starts_with(
      "{\"step\": 10, \"seconds\": 2.0, \"unmetered_seconds\": 0.0, \"joules\": 30.0, \"watts\": 15.0, "
      "\"method\": \"estimated\", \"devices\": {\"cpu\": 29.0, \"memory\": 1.0}, \"check\": \""))
      << line;
}

TEST_F(EnergyLogTest, WhatIsUnknownIsNull) {  // fault:F1
  const std::string line = energy_json(1, {.unmetered_seconds = 3});
  EXPECT_TRUE(contains(line, "\"joules\": null, \"watts\": null, \"method\": \"unavailable\""));
}

TEST_F(EnergyLogTest, TotalsGoOnOverARestart) {  // fault:F3
  write({10, 20});
  write({5});
  const EnergyLog log(path_);
  EXPECT_DOUBLE_EQ(log.recorded().joules, 35.0);
  EXPECT_DOUBLE_EQ(log.recorded().metered_seconds, 6.0);
  EXPECT_EQ(log.recorded().method, EnergyMethod::kEstimated);
}

TEST_F(EnergyLogTest, ACutAtAnyByteLosesOneRecordAtMost) {  // fault:F3
  write({10, 20, 40});
  const std::string whole = text();
  const size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (size_t cut = last; cut < whole.size(); cut += 7) {
    folder_.write("energy.jsonl", whole.substr(0, cut));
    write({100});
    const EnergyLog log(path_);
    EXPECT_DOUBLE_EQ(log.recorded().joules, 130.0) << cut;
    EXPECT_TRUE(text().starts_with(whole.substr(0, cut)));  // nothing is taken away
  }
}

TEST_F(EnergyLogTest, AChangedRecordDoesNotCount) {  // fault:F3
  write({10, 20});
  std::string changed = text();
  changed.replace(changed.find("\"joules\": 10.0"), 14, "\"joules\": 90.0");
  folder_.write("energy.jsonl", changed);
  EXPECT_DOUBLE_EQ(EnergyLog(path_).recorded().joules, 20.0);
}

TEST_F(EnergyLogTest, AFolderInItsPlaceIsAnError) {
  EXPECT_ANY_THROW(EnergyLog(folder_.path()));
}

}  // namespace
}  // namespace litespark
