// SPDX-License-Identifier: Apache-2.0
// `litespark prepare`: text into tokenised shards.
#include <unistd.h>

#include <iostream>

#include "commands.h"
#include "core/text_table.h"
#include "io/run_file.h"
#include "prepare/prepare.h"

namespace litespark::cli {
namespace {

std::string set_line(const char* what, const ShardDescription& set) {
  return std::string(what) + ": " + count_text(set.documents()) + " documents, " + count_text(set.tokens()) +
         " tokens of " + std::to_string(set.token_bytes) + " bytes, " +
         fixed_text(static_cast<double>(set.text_bytes) / static_cast<double>(set.tokens()), 2) +
         " bytes of text a token, " + std::to_string(set.shards.size()) +
         (set.shards.size() == 1 ? " shard" : " shards") + "\n";
}

class PrepareCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "prepare",
            .purpose = "Turns text (plain, JSON lines, gzip, zstd) into tokenised shards, as a DATA.toml says.",
            .positionals = {{.name = "DATA.toml", .help = "What to read, which tokenizer, where to write."}},
            .example = "litespark prepare data.toml --output.eval_every=100 --output.eval_path=data/eval"};
  }

  void visit_file(Fields& fields) override { config_.visit(fields); }

  ExitCode run(const CommandLine& line) override {
    const Fields fields = Fields::of(config_);
    const std::filesystem::path path = line.positionals.at(0);
    read_toml(read_toml_text(path), path.filename().string(), fields);
    apply_overrides(line.overrides, fields);
    const bool is_terminal = isatty(STDERR_FILENO) == 1;
    const PrepareReport report = prepare_data(config_, [&](int64_t done, int64_t total) {
      if (is_terminal) std::cerr << "\rprepare: " << done * 100 / std::max<int64_t>(total, 1) << "%" << std::flush;
    });
    if (is_terminal) std::cerr << "\n";
    std::cout << set_line("train", report.train);
    if (!report.eval.shards.empty()) std::cout << set_line("held out", report.eval);
    const double bytes = static_cast<double>(report.train.text_bytes + report.eval.text_bytes);
    std::cout << fixed_text(report.seconds, 1) << " s, " << fixed_text(bytes / report.seconds / 1e6, 1) << " MB/s\n";
    return ExitCode::kDone;
  }

 private:
  PrepareConfig config_;
};

}  // namespace

std::unique_ptr<Command> make_prepare_command() {
  return std::make_unique<PrepareCommand>();
}

}  // namespace litespark::cli
