// SPDX-License-Identifier: Apache-2.0
// The chapters of `litespark anatomy`, with the sizes that a device's default and its --full run take.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "anatomy/chapter.h"
#include "anatomy/collectives.h"
#include "anatomy/measure.h"
#include "anatomy/width.h"
#include "ops/backend.h"
#include "plan/hardware.h"

namespace litespark::cli {

/// What a chapter is run with.
struct AnatomyRequest {
  Backend& backend;
  anatomy::MeasureOptions options;
  bool is_large = false;              ///< sizes of real models: on a GPU, or with --full
  std::filesystem::path folder = {};  ///< where chapters may write files for a moment
  Hardware* measured = nullptr;       ///< receives what the planner wants to know of a machine, when somebody asks
  anatomy::WidthSizes width = {.rows = 0, .hidden = 0, .width = 0};  ///< 0s: the device's default
  std::filesystem::path width_file = {};                             ///< where widths go; empty: nowhere
  std::vector<anatomy::RankWorld> worlds = {};
};

struct AnatomyChapter {
  std::string_view name;
  std::string_view purpose;
  std::function<anatomy::Chapter(AnatomyRequest& request)> run;
};

/// In the order in which they are run and listed.
const std::vector<AnatomyChapter>& anatomy_chapters();

/// The chapters of these names in listed order, all without a name. Throws ConfigError naming the nearest.
std::vector<const AnatomyChapter*> chosen_chapters(const std::vector<std::string>& names);

}  // namespace litespark::cli
