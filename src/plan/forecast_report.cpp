// SPDX-License-Identifier: Apache-2.0
#include "plan/forecast_report.h"

#include "core/json_text.h"
#include "core/text_table.h"

namespace litespark {
namespace {

std::string milliseconds(double seconds) {
  return fixed_text(1000 * seconds, 2) + " ms";
}

/// Four figures are more than any forecast has.
std::string amount(double value, const char* unit) {
  const int decimals = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 1 ? 2 : 4;
  return fixed_text(value, decimals) + (*unit == '\0' ? "" : " ") + unit;
}

std::string known(double value, const char* unit, bool is_known) {
  return is_known ? amount(value, unit) : "n/a";
}

/// A grid of 0 g is one, when somebody says so.
bool knows_grid(const EnergyQuestion& energy) {
  return energy.grams_per_kwh > 0 || !energy.intensity_source.empty();
}

/// RFC 4180.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) {
    if (c == '"') cell += '"';
    cell += c;
  }
  return cell + "\"";
}

std::string json_key(const char* name) {
  std::string key(name);
  for (char& c : key) c = c == ' ' ? '_' : c;
  return json_string(key + "_seconds");
}

std::string time_text(const RunForecast& forecast) {
  const StepSeconds& step = forecast.step;
  TextTable table({"step", "time", "share"});
  for (const auto& [name, seconds] : step_parts(step)) {
    if (seconds > 0) table.add({name, milliseconds(seconds), fixed_text(100 * seconds / step.total) + " %"});
  }
  table.add_rule();
  table.add({"total", milliseconds(step.total), ""});
  const double peak = forecast.hardware.bf16_tflops;
  return table.to_string() + amount(step.tokens_per_second, "tokens/s") + ", " + fixed_text(step.model_tflops) +
         " TFLOP/s a device, MFU " + fixed_text(100 * step.model_tflops / peak) + " % of " +
         fixed_text(peak, peak < 10 ? 2 : 0) + " (6 N + 6 L H D T)\n";
}

std::string cost_text(const RunForecast& forecast) {
  const EnergyCost& cost = forecast.cost;
  const EnergyQuestion& energy = forecast.energy;
  TextTable table({"the whole run, modelled, not metered", ""});
  table.add({"tokens", count_text(static_cast<int64_t>(forecast.tokens))});
  table.add({"time of its steps", amount(forecast.hours, "h")});
  table.add({"  and for saves, restarts and work done again",
             forecast.overhead_share ? amount(forecast.hours * *forecast.overhead_share, "h")
                                     : "without end: failures come faster than work is redone; save more often"});
  if (forecast.played && forecast.played->num_failures > 0) {
    table.add({"  played once with the run's seed: " + count_text(forecast.played->num_failures) + " failures, in all",
               amount(forecast.played->wall_seconds / 3600, "h")});
  }
  table.add({"devices' energy (" + amount(device_watts(forecast.hardware, energy.busy_share), "W each") + ")",
             amount(cost.device_kwh, "kWh")});
  table.add({"  of it waiting", amount(cost.idle_kwh, "kWh")});
  table.add({"rest of the nodes", known(cost.node_kwh, "kWh", forecast.hardware.node_watts > 0)});
  table.add({"building, PUE " + fixed_text(energy.pue, 2), amount(cost.building_kwh, "kWh")});
  const std::string left_out = forecast.hardware.node_watts > 0 ? "" : " without the rest of the nodes";
  table.add(
      {"energy" + left_out + (forecast.overhead_share ? "" : ", of its steps alone"), amount(cost.total_kwh(), "kWh")});
  table.add({"  of it for saves, restarts and work done again",
             known(cost.overhead_kwh, "kWh", forecast.overhead_share.has_value())});
  table.add({"devices' energy a token", amount(forecast.joules_per_token(), "J")});
  const bool has_grid = knows_grid(energy);
  table.add({"carbon, location-based, " + fixed_text(energy.grams_per_kwh, 0) + " g/kWh" +
                 (energy.intensity_source.empty() ? "" : " (" + energy.intensity_source + ")"),
             known(cost.operation_kg, "kg CO2e", has_grid)});
  table.add({"carbon, market-based" +
                 (cost.market_kg ? ", " + fixed_text(*energy.market_grams_per_kwh, 0) + " g/kWh" : std::string()) +
                 (energy.market_source.empty() ? "" : " (" + energy.market_source + ")"),
             known(cost.market_kg.value_or(0), "kg CO2e", cost.market_kg.has_value())});
  table.add({"carbon of making the machines, by hours of " + fixed_text(energy.lifetime_hours / 8760, 1) + " years",
             known(cost.embodied_kg, "kg CO2e", forecast.hardware.embodied_kg > 0)});
  table.add({"tree-years at 22 kg a tree and year", known(tree_years(cost.operation_kg, 22), "", has_grid)});
  table.add({"rent of devices", known(cost.rent_dollars, "dollars", forecast.hardware.price_per_hour > 0)});
  table.add({"preparing data", known(cost.data_dollars, "dollars", cost.data_dollars > 0)});
  table.add({"labels", known(cost.label_dollars, "dollars", cost.label_dollars > 0)});
  table.add({"electricity, if paid apart, in the currency of meter.price_per_kwh",
             known(cost.electricity_money, "", energy.price_per_kwh > 0)});
  return table.to_string();
}

const char* method_text(const RunForecast& forecast) {
  if (forecast.goes_by_tape) return "op by op";
  return forecast.has_tapes ? "in closed form" : "in closed form: training cannot run this layout yet";
}

}  // namespace

std::string forecast_text(const RunForecast& forecast) {
  const Workload& workload = forecast.workload;
  std::string text = "forecast for " + std::to_string(workload.layout.gpus()) + " x " + forecast.hardware.name + ", " +
                     workload.layout.text() + ", " + method_text(forecast) +
                     "; how far off such forecasts were: docs/planner.md\n\n";
  text += time_text(forecast) + "\n";
  text += "memory of a device: " + bytes_text(static_cast<int64_t>(forecast.memory_bytes)) + " of " +
          bytes_text(static_cast<int64_t>(forecast.hardware.memory_bytes())) +
          (forecast.memory_is_exact ? "" : ", estimated") + (forecast.fits() ? "" : ": DOES NOT FIT") + "\n\n";
  return text + cost_text(forecast);
}

std::string forecast_json(const RunForecast& forecast) {
  const Workload& workload = forecast.workload;
  const EnergyCost& cost = forecast.cost;
  std::string text = "{\"hardware\": " + json_string(forecast.hardware.name) +
                     ", \"gpus\": " + std::to_string(workload.layout.gpus()) +
                     ", \"layout\": " + json_string(workload.layout.text()) +
                     ", \"method\": " + json_string(forecast.goes_by_tape ? "tape" : "closed form") + ", \"step\": {";
  for (const auto& [name, seconds] : step_parts(forecast.step))
    text += json_key(name) + ": " + json_number(seconds) + ", ";
  text += "\"total_seconds\": " + json_number(forecast.step.total) +
          ", \"tokens_per_second\": " + json_number(forecast.step.tokens_per_second) +
          ", \"model_tflops_per_gpu\": " + json_number(forecast.step.model_tflops) + "}";
  text += ", \"memory_bytes\": " + json_number(forecast.memory_bytes) +
          ", \"memory_is_exact\": " + (forecast.memory_is_exact ? "true" : "false") +
          ", \"fits\": " + (forecast.fits() ? "true" : "false");
  const auto number = [&](const char* key, double value, bool is_known) {
    text += ", \"" + std::string(key) + "\": " + (is_known ? json_number(value) : "null");
  };
  text += ", \"run\": {\"energy_kind\": \"modelled\"";
  number("hours", forecast.hours, true);
  number("overhead_share", forecast.overhead_share.value_or(0), forecast.overhead_share.has_value());
  number("played_failures", forecast.played ? static_cast<double>(forecast.played->num_failures) : 0,
         forecast.played.has_value());
  number("played_hours", forecast.played ? forecast.played->wall_seconds / 3600 : 0, forecast.played.has_value());
  number("tokens", forecast.tokens, true);
  number("device_kwh", cost.device_kwh, true);
  number("waiting_kwh", cost.idle_kwh, true);
  number("node_kwh", cost.node_kwh, forecast.hardware.node_watts > 0);
  number("building_kwh", cost.building_kwh, true);
  number("total_kwh", cost.total_kwh(), true);
  number("overhead_kwh", cost.overhead_kwh, forecast.overhead_share.has_value());
  number("joules_per_token", forecast.joules_per_token(), true);
  number("grams_per_kwh", forecast.energy.grams_per_kwh, knows_grid(forecast.energy));
  number("operation_kg_co2e", cost.operation_kg, knows_grid(forecast.energy));
  number("market_kg_co2e", cost.market_kg.value_or(0), cost.market_kg.has_value());
  number("embodied_kg_co2e", cost.embodied_kg, forecast.hardware.embodied_kg > 0);
  number("rent_dollars", cost.rent_dollars, forecast.hardware.price_per_hour > 0);
  number("data", cost.data_dollars, cost.data_dollars > 0);
  number("labels", cost.label_dollars, cost.label_dollars > 0);
  number("electricity", cost.electricity_money, forecast.energy.price_per_kwh > 0);
  return text + "}}";
}

std::string forecast_csv_head() {
  return "hardware,gpus,dp,tp,pp,cp,ep,vpp,micro_batch,global_batch,step_seconds,tokens_per_second,"
         "model_tflops_per_gpu,memory_bytes,fits,hours,total_kwh,kg_co2e,dollars\n";
}

std::string forecast_csv(const RunForecast& forecast) {
  const Workload& w = forecast.workload;
  std::string line = csv_cell(forecast.hardware.name);
  for (const int64_t value : {w.layout.gpus(), w.layout.dp, w.layout.tp, w.layout.pp, w.layout.cp, w.layout.ep,
                              w.layout.vpp, w.micro_batch, w.global_batch}) {
    line += "," + std::to_string(value);
  }
  for (const double value :
       {forecast.step.total, forecast.step.tokens_per_second, forecast.step.model_tflops, forecast.memory_bytes}) {
    line += "," + json_number(value);
  }
  line += forecast.fits() ? ",yes" : ",no";
  const auto add = [&](double value, bool is_known) { line += "," + (is_known ? json_number(value) : "n/a"); };
  add(forecast.hours, true);
  add(forecast.cost.total_kwh(), true);
  add(forecast.cost.operation_kg, knows_grid(forecast.energy));
  add(forecast.cost.rent_dollars, forecast.hardware.price_per_hour > 0);
  return line + "\n";
}

}  // namespace litespark
