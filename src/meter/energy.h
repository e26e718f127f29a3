// SPDX-License-Identifier: Apache-2.0
// Energy of an interval, with the way it became known. What no sensor told is unknown, never zero: totals keep the
// seconds that they cover, so that a gap is visible.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace litespark {

/// From the best to none.
enum class EnergyMethod : uint8_t {
  kCounter,      ///< a hardware energy counter
  kIntegrated,   ///< power readings over time, trapezoids
  kEstimated,    ///< a model of the machine, no measurement
  kUnavailable,  ///< nothing is known
};

/// "counter", "integrated", "estimated", "unavailable".
std::string_view method_name(EnergyMethod method);

enum class EnergyPart : uint8_t { kCpu, kRam, kGpu };

/// Energy of one interval. `joules` is there exactly when the method is not kUnavailable.
struct EnergyReading {
  std::optional<double> joules;
  EnergyMethod method = EnergyMethod::kUnavailable;
};

/// One source of energy figures; each watt of the machine belongs to one sensor at most.
class EnergySensor {
 public:
  virtual ~EnergySensor() = default;
  /// "cpu package-0", "gpu GPU-1b2c...": unique within a machine.
  virtual std::string device() const = 0;
  virtual EnergyPart part() const = 0;
  /// Since the call before; the first call starts the count and its result means nothing. `now_seconds` is monotonic.
  virtual EnergyReading read(double now_seconds) = 0;
};

/// Turns values of a counter into differences. A step backwards or a missing value makes the interval unknown; only a
/// counter with a known range may wrap, and then a step of half the range or more counts as a jump backwards.
class CounterTrack {
 public:
  /// `range`: the counter goes from 0 to range - 1 and starts again; 0: it never wraps.
  explicit CounterTrack(uint64_t range = 0) : range_(range) {}

  /// The difference to the value before; nullopt: unknown.
  std::optional<uint64_t> advance(const std::optional<uint64_t>& value);

 private:
  uint64_t range_;
  std::optional<uint64_t> last_;
};

/// Trapezoids under power readings; an interval with a missing end is unknown.
class PowerIntegral {
 public:
  std::optional<double> advance(double now_seconds, const std::optional<double>& watts);

 private:
  std::optional<double> last_watts_;
  double last_seconds_ = 0;
};

/// What one device used in an interval.
struct DeviceEnergy {
  std::string device;
  EnergyPart part = EnergyPart::kCpu;
  EnergyReading reading;
};

struct EnergyInterval {
  double seconds = 0;
  std::vector<DeviceEnergy> devices;

  /// The sum; nullopt when there is no device or any of them is unknown.
  std::optional<double> joules() const;
  /// The weakest of the devices' methods.
  EnergyMethod method() const;
};

/// Seconds of the system's monotonic clock, which no clock setting moves.
double monotonic_seconds();

/// All sensors of a run, read together.
class EnergyMeter {
 public:
  /// Starts the first interval. Throws InternalError when two sensors name the same device: its energy would count
  /// twice.
  explicit EnergyMeter(std::vector<std::unique_ptr<EnergySensor>> sensors,
                       std::function<double()> clock = monotonic_seconds);

  /// Since the call before, or since the start; valid until the next call.
  const EnergyInterval& read();
  /// Names of the devices, as the sensors give them.
  std::vector<std::string> devices() const;

 private:
  std::vector<std::unique_ptr<EnergySensor>> sensors_;
  std::function<double()> clock_;
  double last_seconds_ = 0;
  EnergyInterval interval_;
};

}  // namespace litespark
