// SPDX-License-Identifier: Apache-2.0
// Energy counters of processor packages and memory, as Linux shows them under /sys/class/powercap. Only zones that do
// not contain each other are read, so that nothing counts twice.
#pragma once

#include <filesystem>

#include "meter/energy.h"

namespace litespark {

/// A sensor for each package and each memory zone whose counter can be read (since Linux 5.10 that takes root or a
/// changed permission); empty: there is none. Left out: zones inside a package, the platform zone "psys", and the
/// second view of the packages over MMIO.
std::vector<std::unique_ptr<EnergySensor>> find_rapl_sensors(
    const std::filesystem::path& powercap = "/sys/class/powercap");

}  // namespace litespark
