// SPDX-License-Identifier: Apache-2.0
// Settings with one field of every type, and a section inside a section.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/fields.h"

namespace litespark {

enum class Colour : uint8_t { kRed, kGreen };

struct InnerSettings {
  int64_t depth = 3;
  void visit(Fields& fields) {
    fields.add({.path = "depth", .value = &depth, .help = "How deep.", .unit = "m", .range = between(1, 9)});
  }
};

struct EngineSettings {
  int64_t steps = 10;
  double rate = 0.5;
  std::optional<double> price;
  std::vector<double> betas = {0.5, 0.25};
  std::vector<int64_t> teeth = {3, 4};
  InnerSettings inner;
  void visit(Fields& fields) {
    fields.add({.path = "steps", .value = &steps, .help = "How many.", .unit = "steps", .range = at_least(1)});
    fields.add({.path = "learning_rate", .value = &rate, .help = "How fast.", .range = above(0)});
    fields.add({.path = "price", .value = &price, .help = "How dear.", .range = at_least(0)});
    fields.add({.path = "betas", .value = &betas, .help = "Decays.", .range = from_to_below(0, 1)});
    fields.add({.path = "teeth", .value = &teeth, .help = "Of each wheel.", .range = at_least(1)});
    fields.section("inner", "Inside.", inner);
  }
};

struct SampleSettings {
  bool is_loud = false;
  std::string name = "x";
  Colour colour = Colour::kRed;
  std::string size = "small";
  std::optional<bool> is_open;
  std::optional<int64_t> count;
  std::vector<std::string> tags;
  EngineSettings engine;
  void visit(Fields& fields) {
    fields.add({.path = "is_loud", .value = &is_loud, .help = "Loud."});
    fields.add({.path = "name", .value = &name, .help = "Name."});
    fields.add({.path = "colour", .value = &colour, .help = "Colour.", .choices = {"red", "green"}});
    fields.add({.path = "size", .value = &size, .help = "Size.", .choices = {"small", "large"}});
    fields.add({.path = "is_open", .value = &is_open, .help = "Open."});
    fields.add({.path = "count", .value = &count, .help = "Count.", .range = between(-5, 5)});
    fields.add({.path = "tags", .value = &tags, .help = "Tags."});
    fields.section("engine", "The engine.", engine);
  }
};

}  // namespace litespark
