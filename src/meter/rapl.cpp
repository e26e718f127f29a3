// SPDX-License-Identifier: Apache-2.0
#include "meter/rapl.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <string_view>

#include "core/system_file.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

constexpr double kJoulesPerMicrojoule = 1e-6;

std::string first_line(const fs::path& path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::optional<uint64_t> number_in(const fs::path& path) {
  std::array<char, 64> buffer;
  std::string_view line = read_system_file(path.c_str(), buffer);
  line = line.substr(0, line.find('\n'));
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || end != line.data() + line.size()) return std::nullopt;
  return number;
}

class RaplSensor final : public EnergySensor {
 public:
  RaplSensor(const fs::path& zone, std::string device, EnergyPart part)
      : counter_(zone / "energy_uj"),
        device_(std::move(device)),
        part_(part),
        // The largest value, so the range is one more.
        track_(number_in(zone / "max_energy_range_uj").value_or(uint64_t{0} - 1) + 1) {}

  std::string device() const override { return device_; }
  EnergyPart part() const override { return part_; }

  EnergyReading read(double) override {
    const std::optional<uint64_t> microjoules = track_.advance(number_in(counter_));
    if (!microjoules) return {};
    return {.joules = static_cast<double>(*microjoules) * kJoulesPerMicrojoule, .method = EnergyMethod::kCounter};
  }

 private:
  fs::path counter_;
  std::string device_;
  EnergyPart part_;
  CounterTrack track_;
};

}  // namespace

std::vector<std::unique_ptr<EnergySensor>> find_rapl_sensors(const fs::path& powercap) {
  std::vector<fs::path> zones;
  std::error_code status;
  for (fs::directory_iterator entry(powercap, status), end; !status && entry != end; entry.increment(status)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("intel-rapl:")) zones.push_back(entry->path());
  }
  std::sort(zones.begin(), zones.end());
  std::vector<std::unique_ptr<EnergySensor>> sensors;
  for (const fs::path& zone : zones) {
    const std::string id = zone.filename().string();
    const std::string name = first_line(zone / "name");
    const bool is_package = name.starts_with("package-");
    if ((!is_package && name != "dram") || !number_in(zone / "energy_uj")) continue;
    sensors.push_back(
        std::make_unique<RaplSensor>(zone, (is_package ? "cpu " : "memory ") + name + " " + id.substr(id.find(':') + 1),
                                     is_package ? EnergyPart::kCpu : EnergyPart::kRam));
  }
  return sensors;
}

}  // namespace litespark
