// SPDX-License-Identifier: Apache-2.0
// Four boards of a made-up driver: which ones a run sees, and that each counts once.
#include <gtest/gtest.h>

#include <cstdlib>

#include "meter/nvml.h"

namespace litespark {
namespace {

struct FakeDriver final : GpuDriver {
  std::vector<std::string> uuids = {"GPU-aa00", "GPU-bb11", "GPU-cc22", "GPU-cd33"};
  std::vector<std::string> names = {"H200", "H200", "H200", "H200"};
  std::vector<uint64_t> millijoules = {100000, 200000, 300000, 400000};
  std::vector<double> watts = {100, 200, 300, 400};
  bool has_counter = true;

  int num_gpus() const override { return static_cast<int>(uuids.size()); }
  std::optional<std::string> uuid(int i) const override { return uuids.at(static_cast<size_t>(i)); }
  std::optional<std::string> board_name(int i) const override { return names.at(static_cast<size_t>(i)); }
  std::optional<uint64_t> energy_millijoules(int i) const override {
    if (!has_counter) return std::nullopt;
    return millijoules.at(static_cast<size_t>(i));
  }
  std::optional<double> power_watts(int i) const override { return watts.at(static_cast<size_t>(i)); }
  std::optional<int64_t> used_bytes(int i) const override { return 1000 + i; }
};

using Uuids = std::vector<std::string>;

class Nvml : public testing::Test {
 protected:
  std::optional<Uuids> visible(const std::string& list) const { return visible_gpus(*driver_, list, std::nullopt); }
  std::vector<std::unique_ptr<EnergySensor>> sensors(const Uuids& uuids) const {
    return make_gpu_sensors(driver_, uuids);
  }

  const std::shared_ptr<FakeDriver> driver_ = std::make_shared<FakeDriver>();
};

TEST_F(Nvml, TheProcessSeesWhatItsEnvironmentSays) {
  const char* const before = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string kept = before == nullptr ? "" : before;
  setenv("CUDA_VISIBLE_DEVICES", "2", 1);
  EXPECT_EQ(visible_gpus_here(*driver_), (Uuids{"GPU-cc22"}));
  if (before == nullptr) {
    unsetenv("CUDA_VISIBLE_DEVICES");
  } else {
    setenv("CUDA_VISIBLE_DEVICES", kept.c_str(), 1);
  }
}

TEST_F(Nvml, MemoryIsThatOfTheBoardWithTheUuid) {
  EXPECT_EQ(gpu_used_bytes(*driver_, "GPU-cc22"), 1002);
  EXPECT_EQ(gpu_used_bytes(*driver_, "GPU-none"), std::nullopt);
}

TEST_F(Nvml, OrdinalsAndUuidsMeanTheirBoards) {  // report:B42
  EXPECT_EQ(visible("3,1"), (Uuids{"GPU-cd33", "GPU-bb11"}));
  EXPECT_EQ(visible("GPU-cd33, GPU-b"), (Uuids{"GPU-cd33", "GPU-bb11"}));
  EXPECT_EQ(visible_gpus(*driver_, std::nullopt, std::nullopt), driver_->uuids);
  EXPECT_EQ(visible(""), Uuids{});
}

TEST_F(Nvml, TheListEndsAtAnEntryWithoutABoard) {
  EXPECT_EQ(visible("2,-1,0"), Uuids{"GPU-cc22"});
  EXPECT_EQ(visible("0,9,1"), Uuids{"GPU-aa00"});
  EXPECT_EQ(visible("GPU-zz"), Uuids{});
}

TEST_F(Nvml, ABoardListedTwiceCountsOnce) {  // report:B41
  EXPECT_EQ(visible("1,GPU-bb11,1"), Uuids{"GPU-bb11"});
}

TEST_F(Nvml, OrdinalsOfUnlikeBoardsNeedTheOrderOfTheBus) {  // report:B42
  driver_->names[2] = "L4";
  EXPECT_EQ(visible("0"), std::nullopt);
  EXPECT_EQ(visible("GPU-aa"), Uuids{"GPU-aa00"});
  EXPECT_EQ(visible_gpus(*driver_, "2", "PCI_BUS_ID"), Uuids{"GPU-cc22"});
}

TEST_F(Nvml, FourBoardsAreCountedOnceEach) {  // report:B41
  double now = 0;
  EnergyMeter meter(sensors(driver_->uuids), [&] { return now; });
  for (uint64_t& counter : driver_->millijoules) counter += 1000;
  now = 2.0;
  const EnergyInterval interval = meter.read();
  EXPECT_DOUBLE_EQ(interval.joules().value(), 4.0);
  EXPECT_EQ(interval.seconds, 2.0);
  EXPECT_EQ(interval.devices[3].device, "gpu GPU-cd33");
}

TEST_F(Nvml, TheVisibleBoardIsTheOneThatIsRead) {  // report:B42
  const auto all = sensors(visible("3").value());
  ASSERT_EQ(all.size(), 1u);
  all[0]->read(0);
  driver_->millijoules = {900000, 900000, 900000, 402500};
  EXPECT_DOUBLE_EQ(all[0]->read(1).joules.value(), 2.5);
}

TEST_F(Nvml, ACounterThatFallsIsUnknown) {  // fault:F1
  const auto all = sensors({"GPU-aa00"});
  all.at(0)->read(0);
  driver_->millijoules[0] = 5;
  EXPECT_EQ(all[0]->read(1).joules, std::nullopt);
  driver_->millijoules[0] = 1005;
  EXPECT_DOUBLE_EQ(all[0]->read(2).joules.value(), 1.0);
}

TEST_F(Nvml, WithoutACounterPowerIsIntegrated) {
  driver_->has_counter = false;
  const auto all = sensors({"GPU-bb11"});
  all.at(0)->read(10);
  driver_->watts[1] = 400;
  const EnergyReading reading = all[0]->read(12);
  EXPECT_DOUBLE_EQ(reading.joules.value(), 600.0);
  EXPECT_EQ(reading.method, EnergyMethod::kIntegrated);
}

TEST_F(Nvml, AnUnknownBoardIsUnavailable) {
  const auto all = sensors({"GPU-zz"});
  ASSERT_EQ(all.size(), 1u);
  all[0]->read(0);
  EXPECT_EQ(all[0]->read(1).method, EnergyMethod::kUnavailable);
}

TEST_F(Nvml, OpeningTheRealLibraryNeverFailsHard) {
  const auto driver = open_nvml();
  EXPECT_TRUE(driver == nullptr || driver->num_gpus() >= 0);
}

}  // namespace
}  // namespace litespark
