// SPDX-License-Identifier: Apache-2.0
#include "plan/energy_cost.h"

#include <algorithm>

#include "core/error.h"

namespace litespark {
namespace {

/// Training runs at the power limit while matmuls run (bench/results, H200: 683 to 703 W of 700).
constexpr double kComputingShare = 0.97;
/// A device that waits for others spins in communication kernels.
constexpr double kWaitingShare = 0.45;
/// See node_watts_beside.
constexpr double kNodeShare = 0.82;

void need_positive(const char* what, double value) {
  if (!(value > 0)) throw ConfigError(what, "must be positive", value, "above 0");
}

}  // namespace

double busy_share(const StepSeconds& step) {
  if (!(step.total > 0)) return 0;
  const double waiting = step.tensor + step.context + step.expert + step.bubble + step.sharded + step.gradients;
  return std::clamp(1 - waiting / step.total, 0.0, 1.0);
}

double device_watts(const Hardware& hardware, double busy_share) {
  const double waiting = hardware.idle_watts + kWaitingShare * (hardware.watts - hardware.idle_watts);
  return busy_share * kComputingShare * hardware.watts + (1 - busy_share) * waiting;
}

double node_watts_beside(const Hardware& hardware, double busy_share) {
  const double devices = static_cast<double>(hardware.devices_a_node);
  const double whole = kNodeShare * hardware.node_watts / devices;
  return std::max(0.0, whole - device_watts(hardware, 1)) * (0.7 + 0.3 * busy_share);
}

EnergyCost energy_cost(const EnergyQuestion& question, const Hardware& hardware) {
  need_positive("hours", question.hours);
  need_positive("gpus", question.gpus);
  if (hardware.watts <= 0) throw ConfigError("hardware.watts", "is needed for energy", hardware.watts, "above 0");
  EnergyCost out;
  const double work = 1 + question.overhead_share;
  out.device_hours = question.hours * question.gpus * work;
  const double watts = device_watts(hardware, question.busy_share);
  out.device_kwh = out.device_hours * watts / 1000;
  out.node_kwh = out.device_hours * node_watts_beside(hardware, question.busy_share) / 1000;
  out.building_kwh = (out.device_kwh + out.node_kwh) * (question.pue - 1);
  out.overhead_kwh = out.total_kwh() * question.overhead_share / work;
  // A run that never waits leaves what rounding leaves, of either sign.
  const double busy_kwh = out.device_hours * question.busy_share * kComputingShare * hardware.watts / 1000;
  out.idle_kwh = std::max(0.0, out.device_kwh - busy_kwh);
  out.operation_kg = out.total_kwh() * question.grams_per_kwh / 1000;
  if (question.market_grams_per_kwh) out.market_kg = out.total_kwh() * *question.market_grams_per_kwh / 1000;
  out.embodied_kg = hardware.embodied_kg * out.device_hours / question.lifetime_hours;
  out.rent_dollars = hardware.price_per_hour * out.device_hours;
  out.electricity_money = question.price_per_kwh * out.total_kwh();
  out.data_dollars = question.data_dollars;
  out.label_dollars = question.label_dollars;
  return out;
}

double tree_years(double kg, double kg_a_tree_and_year) {
  need_positive("kg a tree and year", kg_a_tree_and_year);
  return kg / kg_a_tree_and_year;
}

}  // namespace litespark
