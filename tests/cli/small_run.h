// SPDX-License-Identifier: Apache-2.0
// A folder with a run file that trains in milliseconds, and what tests look at in it afterwards.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/run_program.h"
#include "support/temporary_folder.h"

namespace litespark {

class SmallRun {
 public:
  SmallRun() {
    folder_.write("small.toml",
                  "[model]\nvocab_size = 64\nhidden_size = 32\nintermediate_size = 64\n"
                  "num_hidden_layers = 1\nnum_attention_heads = 2\n"
                  "[data]\nsource = \"synthetic\"\nseq_len = 8\n"
                  "[train]\nsteps = 6\nmicro_batch = 2\n"
                  "[precision]\ncompute = \"fp32\"\n"
                  "[device]\nkind = \"cpu\"\nthreads = 1\n");
  }

  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  std::string text(const std::string& name) const { return test::file_text(path(name)); }
  bool exists(const std::string& name) const { return std::filesystem::exists(path(name)); }

  std::vector<std::string> train_arguments(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"train", "small.toml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  ProgramResult train(const std::vector<std::string>& more = {}, const std::vector<std::string>& launcher = {}) const {
    return run_litespark(train_arguments(more), folder_.path().string(), "", launcher);
  }
  /// Starts training and returns once the first step is recorded in `out`.
  std::unique_ptr<RunningLitespark> start(const std::string& out, std::vector<std::string> more) const {
    more.push_back("--out=" + out);
    auto program = std::make_unique<RunningLitespark>(train_arguments(more), folder_.path().string());
    for (int i = 0; i < 6000 && text(out + "/metrics.jsonl").empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return program;
  }

 private:
  test::TemporaryFolder folder_;
};

}  // namespace litespark
