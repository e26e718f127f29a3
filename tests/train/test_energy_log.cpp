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
          .devices = {{"cpu", {.part = EnergyPart::kCpu, .joules = joules - 1, .method = EnergyMethod::kEstimated}},
                      {"memory", {.part = EnergyPart::kRam, .joules = 1, .method = EnergyMethod::kCounter}}}};
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

TEST_F(EnergyLogTest, ADevicesLineHasTheDocumentedKeys) {
  const std::string lines = energy_lines(10, stretch(30));
  EXPECT_TRUE(lines.starts_with(
      "{\"step\": 10, \"record\": 0, \"seconds\": 2.0, \"unmetered_seconds\": 0.0, \"joules\": 29.0, \"watts\": 14.5, "
      "\"method\": \"estimated\", \"device\": \"cpu\", \"check\": \""))
      << lines;
  EXPECT_TRUE(contains(lines, "\"joules\": 1.0, \"watts\": 0.5, \"method\": \"counter\", \"device\": \"memory\""));
}

TEST_F(EnergyLogTest, WhatIsUnknownIsNull) {  // fault:F1
  const std::string line = energy_lines(1, {.unmetered_seconds = 3});
  EXPECT_TRUE(contains(line, "\"joules\": null, \"watts\": null, \"method\": \"unavailable\", \"device\": \"all\""));
}

TEST_F(EnergyLogTest, TotalsGoOnOverARestart) {  // fault:F3
  write({10, 20});
  write({5});
  const EnergyLog log(path_);
  EXPECT_DOUBLE_EQ(log.recorded().joules, 35.0);
  EXPECT_DOUBLE_EQ(log.recorded().metered_seconds, 6.0);
  EXPECT_EQ(log.recorded().method, EnergyMethod::kEstimated);
}

TEST_F(EnergyLogTest, ACutAtAnyByteLosesOneStretchAtMost) {  // fault:F3
  write({10, 20});
  const size_t kept = text().size();
  write({40});
  const std::string whole = text();
  for (size_t cut = kept; cut < whole.size(); cut += 7) {
    folder_.write("energy.jsonl", whole.substr(0, cut));
    write({100});
    const double joules = EnergyLog(path_).recorded().joules;
    EXPECT_GE(joules, 130.0) << cut;
    EXPECT_LE(joules, 170.0) << cut;
    EXPECT_TRUE(text().starts_with(whole.substr(0, cut)));  // nothing is taken away
  }
}

TEST_F(EnergyLogTest, AChangedRecordDoesNotCount) {  // fault:F3
  write({10, 20});
  std::string changed = text();
  changed.replace(changed.find("\"joules\": 9.0"), 13, "\"joules\": 8.0");
  folder_.write("energy.jsonl", changed);
  EXPECT_DOUBLE_EQ(EnergyLog(path_).recorded().joules, 21.0);
}

TEST_F(EnergyLogTest, AFolderInItsPlaceIsAnError) {
  EXPECT_ANY_THROW(EnergyLog(folder_.path()));
}

}  // namespace
}  // namespace litespark
