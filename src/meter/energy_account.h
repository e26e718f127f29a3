// SPDX-License-Identifier: Apache-2.0
// A running sum of intervals. Seconds without a figure are kept beside the joules, so that a gap never looks like
// rest.
#pragma once

#include <map>
#include <string>

#include "meter/energy.h"

namespace litespark {

/// One device's share of an account.
struct DeviceShare {
  EnergyPart part = EnergyPart::kCpu;
  double joules = 0;
  EnergyMethod method = EnergyMethod::kCounter;  ///< the weakest
};

struct EnergyAccount {
  double joules = 0;                             ///< of the seconds that are metered
  double metered_seconds = 0;                    ///< where every device told its energy
  double unmetered_seconds = 0;                  ///< where one did not
  EnergyMethod method = EnergyMethod::kCounter;  ///< the weakest of the metered intervals
  std::map<std::string, DeviceShare> devices;    ///< all of the interval's once one is metered

  void add(const EnergyInterval& interval);
  /// Begins anew and keeps the memory: devices stay listed with nothing.
  void restart();
  double seconds() const { return metered_seconds + unmetered_seconds; }
  /// Nothing metered: no figure, not zero.
  bool is_known() const { return metered_seconds > 0; }
  std::optional<double> mean_watts() const;
  /// Of all devices of a kind; nullopt when there is none.
  std::optional<double> part_joules(EnergyPart part) const;
  EnergyMethod overall_method() const { return is_known() ? method : EnergyMethod::kUnavailable; }
};

/// Power to show step by step. A board's counter moves a few times a second, so a step of milliseconds has its joules
/// at best in a neighbour: this is the mean over the last stretch of at least `kSeconds`, or over what there is so far.
class PowerWindow {
 public:
  static constexpr double kSeconds = 1.0;

  /// nullopt while the stretch has a gap.
  std::optional<double> add(const EnergyInterval& interval);

 private:
  EnergyAccount stretch_;
  std::optional<double> last_;  ///< of the last whole stretch
};

}  // namespace litespark
