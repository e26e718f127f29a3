// SPDX-License-Identifier: Apache-2.0
// A run folder as a finished run leaves it, small, for tests of what reads and shows it.
#pragma once

#include <filesystem>
#include <string>

#include "support/temporary_folder.h"

namespace litespark::report {

class SampleRun {
 public:
  SampleRun() {
    write("run.toml", "seed = 1\n[train]\nsteps = 4\n");
    write("metrics.jsonl", step(1, "8.0", "50.0") + step(2, "6.0", "70.0") +
                               "{\"step\": 2, \"eval_loss\": 6.5, \"eval_tokens\": 64}\n" + step(3, "null", "60.0") +
                               step(4, "4.0", "60.0"));
  }

  static std::string step(int number, const std::string& loss, const std::string& watts) {
    const std::string text = std::to_string(number);
    return "{\"step\": " + text + ", \"tokens\": " + text + "000, \"loss\": " + loss +
           ", \"grad_norm\": 1.5, \"lr\": 0.001, \"tokens_per_second\": " + text +
           "00.0, \"mfu\": null, \"watts\": " + watts + ", \"joules\": " + watts +
           ", \"co2_grams\": null, \"data_wait_seconds\": 0.5, \"skipped\": " + (loss == "null" ? "true" : "false") +
           "}\n";
  }

  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  test::TemporaryFolder folder_;
};

}  // namespace litespark::report
