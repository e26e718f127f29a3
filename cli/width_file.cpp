// SPDX-License-Identifier: Apache-2.0
#include "width_file.h"

#include "core/json_text.h"
#include "core/quote.h"
#include "io/file.h"
#include "io/run_file.h"
#include "io/tuning_file.h"

namespace litespark::cli {

namespace fs = std::filesystem;

fs::path default_width_file() {
  const fs::path beside = default_tuning_file();
  return beside.empty() ? fs::path{} : beside.parent_path() / "widths.toml";
}

void write_width_table(const fs::path& file, WidthTable table) {
  if (!file.parent_path().empty()) fs::create_directories(file.parent_path());
  write_text_file(file, to_toml(Fields::of(table)));
}

WidthTable read_width_table(const fs::path& file) {
  WidthTable table;
  read_toml(read_toml_text(file.string()), file.string(), Fields::of(table));
  table.validate(file.string());
  table.device = plain_text(table.device);  // stands in a sentence
  return table;
}

RunWidths widths_of_run(const std::string& file, const RunConfig& config, const ModelConfig& model) {
  const fs::path path = file.empty() ? default_width_file() : fs::path(file);
  if (file.empty() && (path.empty() || !is_present(path))) return {};
  const WidthTable table = read_width_table(path);
  const int64_t width = model.intermediate_size / config.cluster.tp;
  RunWidths found;
  if (table.hidden == model.hidden_size) found.advice = advise_width(table, width);
  if (found.advice) {
    found.note = width_text(table, *found.advice);
  } else if (!file.empty()) {
    found.note = plain_text(path.string()) + " knows nothing of width " + std::to_string(width) + " at hidden size " +
                 std::to_string(model.hidden_size) + ": litespark anatomy width --width=" + std::to_string(width) +
                 " --hidden-size=" + std::to_string(model.hidden_size) + " measures it\n";
  }
  return found;
}

std::string widths_json(const WidthAdvice& advice) {
  std::string widths;
  std::string seconds;
  for (const WidthChoice& choice : advice.choices) {
    widths += (widths.empty() ? "" : ", ") + std::to_string(choice.width);
    seconds += (seconds.empty() ? "" : ", ") + json_number(choice.seconds);
  }
  return "{\"asked\": " + std::to_string(advice.asked) + ", \"best\": " + std::to_string(advice.best.width) +
         ", \"slower\": " + json_number(advice.best.slower) + ", \"widths\": [" + widths + "], \"seconds\": [" +
         seconds + "]}";
}

}  // namespace litespark::cli
