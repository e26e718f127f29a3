// SPDX-License-Identifier: Apache-2.0
// Energy, carbon and money of a run that has not been made: a model of power, labelled as one. What was metered lives
// in src/meter and never mixes with it.
#pragma once

#include <optional>
#include <string>

#include "plan/hardware.h"
#include "plan/step_time.h"

namespace litespark {

/// Where and how long a run would go on.
struct EnergyQuestion {
  double hours = 0;
  double gpus = 1;
  /// Of a step, the part in which devices compute rather than wait.
  double busy_share = 1;
  double pue = 1;
  double grams_per_kwh = 0;                    ///< location-based, average
  std::string intensity_source;                ///< with its year
  std::optional<double> market_grams_per_kwh;  ///< of what is bought; absent: not known
  std::string market_source;
  double price_per_kwh = 0;              ///< in the run file's own currency; 0: unknown
  double overhead_share = 0;             ///< saves, restarts and work done again, over the work that counts
  double data_dollars = 0;               ///< preparation of data
  double label_dollars = 0;              ///< people
  double lifetime_hours = 4 * 365 * 24;  ///< over which making the machine is spread
};

struct EnergyCost {
  double device_hours = 0;  ///< with repeated work
  double device_kwh = 0;
  double node_kwh = 0;              ///< processors, memory, network cards, fans
  double building_kwh = 0;          ///< what PUE adds
  double overhead_kwh = 0;          ///< of the three above, for saves, restarts and work done again
  double idle_kwh = 0;              ///< of device_kwh: waiting rather than computing
  double operation_kg = 0;          ///< CO2e, location-based
  std::optional<double> market_kg;  ///< CO2e, market-based: beside the other, never added to it
  double embodied_kg = 0;
  double rent_dollars = 0;
  double electricity_money = 0;  ///< in the currency of EnergyQuestion::price_per_kwh
  double data_dollars = 0;
  double label_dollars = 0;
  double total_kwh() const { return device_kwh + node_kwh + building_kwh; }
};

EnergyCost energy_cost(const EnergyQuestion& question, const Hardware& hardware);

/// The part of a step in which the device computes.
double busy_share(const StepSeconds& step);

/// Mean power of one device that computes `busy_share` of the time.
double device_watts(const Hardware& hardware, double busy_share);

/// The rest of a node's rating for one device, as far as training draws it: a node of eight H100 was metered at 0.82 of
/// its rating (Latif et al. 2025, arXiv:2412.08602).
double node_watts_beside(const Hardware& hardware, double busy_share);

/// Trees that bind `kg` in a year; the factor is the caller's to state (estimates run from 10 to 340 kg).
double tree_years(double kg, double kg_a_tree_and_year);

}  // namespace litespark
