// SPDX-License-Identifier: Apache-2.0
#include "elastic.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <string_view>
#include <utility>

namespace litespark::cli {
namespace {

/// Keys whose values another start has of its own.
constexpr std::array<std::string_view, 4> kReplaced = {"cluster.gpus", "cluster.dp", "train.accumulation",
                                                       "checkpoint.resume"};

std::string lost_text(const LaunchEnd& end) {
  if (end.lost.empty()) return "ranks lost each other";
  std::string text = end.lost.size() == 1 ? "rank" : "ranks";
  for (const int rank : end.lost) text += " " + std::to_string(rank);
  return text + (end.lost.size() == 1 ? " was lost" : " were lost");
}

std::string start_text(const std::optional<int64_t>& step) {
  return step ? "after step " + std::to_string(*step) : "from the start, since there is no checkpoint";
}

void drop(std::vector<std::string>& devices, std::vector<int> lost) {
  std::sort(lost.rbegin(), lost.rend());
  for (const int rank : lost) {
    if (static_cast<size_t>(rank) < devices.size()) devices.erase(devices.begin() + rank);
  }
}

}  // namespace

std::optional<RankShare> share_among(const RunConfig& config, int64_t ranks) {
  const int64_t replicas = config.cluster.data_parallel();
  const int64_t replica = config.cluster.gpus / replicas;
  const int64_t micro_batches = replicas * config.train.accumulation;
  for (int64_t left = std::min(ranks / replica, replicas); left > 0; --left) {
    if (micro_batches % left != 0) continue;
    const RankShare share{.gpus = left * replica, .accumulation = micro_batches / left};
    const bool has_whole_rounds = config.cluster.vpp == 1 || share.accumulation % config.cluster.pp == 0;
    if (has_whole_rounds) return share;
  }
  return std::nullopt;
}

std::vector<std::string> restart_arguments(const CommandLine& line, const RankShare& share, bool has_checkpoint) {
  std::vector<std::string> words = {line.arguments.front()};
  words.insert(words.end(), line.positionals.begin(), line.positionals.end());
  for (const ConfigOverride& setting : line.overrides) {
    const bool is_resume = setting.path == "checkpoint.resume";
    const bool is_replaced = std::find(kReplaced.begin(), kReplaced.end(), setting.path) != kReplaced.end();
    if (!is_replaced || (is_resume && !has_checkpoint)) words.push_back("--" + setting.path + "=" + setting.value);
  }
  words.push_back("--cluster.gpus=" + std::to_string(share.gpus));
  words.push_back("--cluster.dp=0");
  words.push_back("--train.accumulation=" + std::to_string(share.accumulation));
  if (has_checkpoint) words.push_back("--checkpoint.resume=auto");
  return words;
}

ExitCode run_elastic(ElasticRun run) {
  LaunchRequest request{
      .num_ranks = static_cast<int>(run.config.cluster.gpus), .arguments = run.line.arguments, .devices = run.devices};
  int64_t ranks = run.config.cluster.gpus;  // that were not lost yet
  int64_t idle_restarts = 0;
  std::optional<int64_t> step = run.newest_step();
  while (true) {
    const LaunchEnd end = run.launch(request);
    const bool is_loss = end.code == ExitCode::kPeerLost || (end.code == ExitCode::kHardware && !end.lost.empty());
    if (!is_loss || end.was_asked) return end.code;
    // A rank that was never started stands by for one that is lost.
    drop(run.devices, end.lost);
    ranks -= static_cast<int64_t>(end.lost.size());
    const std::optional<int64_t> newest = run.newest_step();
    idle_restarts = newest > step ? 1 : idle_restarts + 1;
    step = newest;
    if (idle_restarts > run.config.distribution.max_restarts) {
      std::cerr << "elastic: " << lost_text(end) << "; no newer checkpoint in " << run.config.distribution.max_restarts
                << " starts, so this was the last\n";
      return end.code;
    }
    const std::optional<RankShare> share = share_among(run.config, ranks);
    if (!share) {
      std::cerr << "elastic: " << lost_text(end) << "; too few are left for one replica\n";
      return end.code;
    }
    ++request.attempt;
    request.num_ranks = static_cast<int>(share->gpus);
    request.arguments = restart_arguments(run.line, *share, newest.has_value());
    request.devices = run.devices;
    std::cout << "elastic: " << lost_text(end) << "; start " << request.attempt + 1 << " with " << share->gpus
              << " ranks and train.accumulation = " << share->accumulation << ", " << start_text(newest) << std::endl;
  }
}

}  // namespace litespark::cli
