// SPDX-License-Identifier: Apache-2.0
// A folder that looks like /sys/class/powercap stands in for the machine.
#include <gtest/gtest.h>

#include "meter/rapl.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

class Rapl : public testing::Test {
 protected:
  void zone(const std::string& id, const std::string& name, const std::string& energy) const {
    std::filesystem::create_directories(folder_.path() / id);
    folder_.write(id + "/name", name + "\n");
    folder_.write(id + "/max_energy_range_uj", "262143328850\n");
    folder_.write(id + "/energy_uj", energy + "\n");
  }
  std::vector<std::unique_ptr<EnergySensor>> sensors() const { return find_rapl_sensors(folder_.path()); }

  const test::TemporaryFolder folder_;
};

TEST_F(Rapl, ReadsPackagesAndMemoryOnceEach) {  // report:B41
  zone("intel-rapl:0", "package-0", "1");
  zone("intel-rapl:0:0", "core", "1");
  zone("intel-rapl:0:1", "dram", "1");
  zone("intel-rapl:1", "package-1", "1");
  zone("intel-rapl:2", "psys", "1");
  zone("intel-rapl-mmio:0", "package-0", "1");
  std::vector<std::string> devices;
  for (const auto& sensor : sensors()) devices.push_back(sensor->device());
  EXPECT_EQ(devices, (std::vector<std::string>{"cpu package-0 0", "memory dram 0:1", "cpu package-1 1"}));
}

TEST_F(Rapl, CountsMicrojoules) {
  zone("intel-rapl:0", "package-0", "5000000");
  const auto all = sensors();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]->read(0).joules, std::nullopt);
  zone("intel-rapl:0", "package-0", "7500000");
  const EnergyReading reading = all[0]->read(1);
  EXPECT_DOUBLE_EQ(reading.joules.value(), 2.5);
  EXPECT_EQ(reading.method, EnergyMethod::kCounter);
}

TEST_F(Rapl, FollowsTheCounterThroughItsWrap) {  // fault:F1
  zone("intel-rapl:0", "package-0", "262142328850");
  const auto all = sensors();
  all.at(0)->read(0);
  zone("intel-rapl:0", "package-0", "999999");
  EXPECT_DOUBLE_EQ(all[0]->read(1).joules.value(), 2.0);
}

TEST_F(Rapl, AResetAndAnUnreadableCounterAreUnknown) {  // fault:F1
  zone("intel-rapl:0", "package-0", "5000000");
  const auto all = sensors();
  all.at(0)->read(0);
  zone("intel-rapl:0", "package-0", "10");
  EXPECT_EQ(all[0]->read(1).joules, std::nullopt);
  zone("intel-rapl:0", "package-0", "what");
  EXPECT_EQ(all[0]->read(2).method, EnergyMethod::kUnavailable);
}

TEST_F(Rapl, WithoutReadableZonesThereIsNoSensor) {
  EXPECT_TRUE(sensors().empty());
  zone("intel-rapl:0", "package-0", "");
  EXPECT_TRUE(sensors().empty());
  EXPECT_TRUE(find_rapl_sensors(folder_.path() / "absent").empty());
}

}  // namespace
}  // namespace litespark
