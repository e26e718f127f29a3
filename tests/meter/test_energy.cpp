// SPDX-License-Identifier: Apache-2.0
// Energy is known or unknown, never silently zero.
#include <gtest/gtest.h>

#include "core/error.h"
#include "meter/energy.h"
#include "meter/fake_sensor.h"

namespace litespark {
namespace {

constexpr EnergyReading kStart{};

EnergyReading counted(double joules) {
  return {.joules = joules, .method = EnergyMethod::kCounter};
}

template <class... Sensors>
std::vector<std::unique_ptr<EnergySensor>> list(Sensors... sensors) {
  std::vector<std::unique_ptr<EnergySensor>> all;
  (all.push_back(std::move(sensors)), ...);
  return all;
}

std::unique_ptr<EnergySensor> fake(const std::string& device, std::vector<EnergyReading> readings) {
  return std::make_unique<FakeSensor>(device, EnergyPart::kGpu, std::move(readings));
}

TEST(CounterTrack, TheFirstValueStartsTheCount) {
  CounterTrack track;
  EXPECT_EQ(track.advance(1000), std::nullopt);
  EXPECT_EQ(track.advance(1500), 500u);
  EXPECT_EQ(track.advance(1500), 0u);
}

TEST(CounterTrack, AJumpBackIsUnknownForThatIntervalOnly) {  // fault:F1
  CounterTrack track;
  track.advance(1000);
  EXPECT_EQ(track.advance(10), std::nullopt);
  EXPECT_EQ(track.advance(30), 20u);
}

TEST(CounterTrack, AMissingValueMakesBothItsIntervalsUnknown) {  // fault:F1
  CounterTrack track;
  track.advance(1000);
  EXPECT_EQ(track.advance(std::nullopt), std::nullopt);
  EXPECT_EQ(track.advance(1200), std::nullopt);
  EXPECT_EQ(track.advance(1300), 100u);
}

TEST(CounterTrack, AKnownRangeWraps) {  // fault:F1
  CounterTrack track(1000);
  track.advance(900);
  EXPECT_EQ(track.advance(50), 150u);
}

TEST(CounterTrack, ASmallStepBackOfAWrappingCounterIsNoWrap) {  // fault:F1
  CounterTrack track(1000);
  track.advance(900);
  EXPECT_EQ(track.advance(890), std::nullopt);
  EXPECT_EQ(track.advance(900), 10u);
}

TEST(PowerIntegral, APowerCurveBecomesItsArea) {
  PowerIntegral integral;
  EXPECT_EQ(integral.advance(10.0, 100.0), std::nullopt);
  EXPECT_EQ(integral.advance(12.0, 100.0), 200.0);
  EXPECT_EQ(integral.advance(13.0, 300.0), 200.0);
  EXPECT_EQ(integral.advance(13.0, 300.0), 0.0);
}

TEST(PowerIntegral, ALostReadingAndATimeThatRunsBackAreUnknown) {  // fault:F1 fault:F2
  PowerIntegral integral;
  integral.advance(10.0, 100.0);
  EXPECT_EQ(integral.advance(11.0, std::nullopt), std::nullopt);
  EXPECT_EQ(integral.advance(12.0, 100.0), std::nullopt);
  EXPECT_EQ(integral.advance(11.5, 100.0), std::nullopt);
}

TEST(EnergyMeter, AddsDevicesAndDividesByTheClock) {
  double now = 5.0;
  EnergyMeter meter(list(fake("a", {kStart, counted(30)}), fake("b", {kStart, counted(70)})), [&] { return now; });
  now = 7.0;
  EXPECT_EQ(meter.devices(), (std::vector<std::string>{"a", "b"}));
  const EnergyInterval interval = meter.read();
  EXPECT_EQ(interval.joules(), 100.0);
  EXPECT_EQ(interval.seconds, 2.0);
  EXPECT_EQ(interval.method(), EnergyMethod::kCounter);
}

TEST(EnergyMeter, OneUnknownDeviceMakesTheSumUnknown) {  // fault:F1
  double now = 0;
  EnergyMeter meter(list(fake("a", {kStart, counted(30), counted(30)}), fake("b", {kStart, {}, counted(1)})),
                    [&] { return ++now; });
  const EnergyInterval gap = meter.read();
  EXPECT_EQ(gap.joules(), std::nullopt);
  EXPECT_EQ(gap.method(), EnergyMethod::kUnavailable);
  EXPECT_EQ(gap.devices[0].reading.joules, 30.0);
  EXPECT_EQ(meter.read().joules(), 31.0);
}

TEST(EnergyMeter, TheWeakestMethodNamesTheSum) {
  double now = 0;
  EnergyMeter meter(
      list(fake("a", {kStart, counted(3)}), fake("b", {kStart, {.joules = 1, .method = EnergyMethod::kEstimated}})),
      [&] { return ++now; });
  EXPECT_EQ(meter.read().method(), EnergyMethod::kEstimated);
}

TEST(EnergyMeter, NoSensorIsUnavailableAndNotZero) {
  EnergyMeter meter({});
  const EnergyInterval interval = meter.read();
  EXPECT_EQ(interval.joules(), std::nullopt);
  EXPECT_EQ(method_name(interval.method()), "unavailable");
}

TEST(EnergyMeter, RefusesADeviceTwice) {  // report:B41
  EXPECT_THROW(EnergyMeter(list(fake("a", {}), fake("a", {}))), InternalError);
}

TEST(EnergyMeter, ItsClockNeverRunsBack) {  // fault:F2
  const double before = monotonic_seconds();
  EXPECT_GE(monotonic_seconds(), before);
}

}  // namespace
}  // namespace litespark
