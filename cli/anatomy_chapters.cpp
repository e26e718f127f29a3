// SPDX-License-Identifier: Apache-2.0
#include "anatomy_chapters.h"

#include <algorithm>

#include "anatomy/attention.h"
#include "anatomy/embedding.h"
#include "anatomy/fragmentation.h"
#include "anatomy/kernels.h"
#include "anatomy/loader.h"
#include "anatomy/norm.h"
#include "anatomy/positions.h"
#include "anatomy/recompute.h"
#include "anatomy/tuning.h"
#include "core/error.h"
#include "core/nearest.h"
#include "scratch_folder.h"
#include "width_file.h"

namespace litespark::cli {
namespace {

using anatomy::Chapter;

/// The model that is taken apart: one that two cores run through in a fraction of a second, or a real one's blocks.
anatomy::ModelSizes model_sizes(bool is_large) {
  if (is_large) {
    return {.vocab = 32000,
            .hidden = 2048,
            .ffn = 8192,
            .layers = 8,
            .heads = 16,
            .kv_heads = 8,
            .sequences = 4,
            .length = 4096};
  }
  return {
      .vocab = 4096, .hidden = 256, .ffn = 768, .layers = 8, .heads = 4, .kv_heads = 4, .sequences = 2, .length = 512};
}

Chapter run_embedding(AnatomyRequest& request) {
  anatomy::EmbeddingSizes sizes;
  if (request.is_large) sizes.tokens = 65536;
  return embedding_chapter(request.backend, request.options, sizes);
}

Chapter run_positions(AnatomyRequest& request) {
  anatomy::PositionSizes sizes;
  if (request.is_large) sizes = {.sequences = 4, .length = 2048, .heads = 32, .kv_heads = 8, .head_dim = 128};
  return positions_chapter(request.backend, request.options, sizes);
}

Chapter run_attention(AnatomyRequest& request) {
  anatomy::AttentionSizes sizes;
  if (request.is_large) {
    sizes = {.tokens = 16384, .heads = 32, .kv_heads = 8, .head_dim = 128, .lengths = {1024, 4096, 4097, 16384}};
  }
  return attention_chapter(request.backend, request.options, sizes);
}

Chapter run_norm(AnatomyRequest& request) {
  anatomy::ModelSizes sizes = model_sizes(request.is_large);
  sizes.layers = 12;
  return norm_chapter(request.backend, request.options, sizes);
}

Chapter run_recompute(AnatomyRequest& request) {
  anatomy::ModelSizes sizes = model_sizes(request.is_large);
  // Each k is a program of its own.
  if (!request.is_large) {
    sizes.layers = 6;
    sizes.length = 256;
  }
  return recompute_chapter(request.backend, request.options, sizes);
}

Chapter run_fragmentation(AnatomyRequest& request) {
  return anatomy::fragmentation_chapter(request.backend.sizes(), request.options.compute, {});
}

anatomy::CeilingSizes ceiling_sizes(bool is_large) {
  if (!is_large) return {};
  return {.rows = 8192,
          .columns = 8192,
          .most_inner = 16384,
          .copy_bytes = int64_t{4} << 30,
          .attention_tokens = 16384,
          .heads = 32,
          .head_dim = 128};
}

Chapter run_kernels(AnatomyRequest& request) {
  return kernels_chapter(
      request.backend, request.options,
      {.model = model_sizes(request.is_large), .ceilings = ceiling_sizes(request.is_large), .num_runs = 5},
      request.measured);
}

Chapter run_width(AnatomyRequest& request) {
  // The claim's own shape, or a quarter of it.
  anatomy::WidthSizes sizes;
  if (request.is_large) sizes = {.rows = 8192, .hidden = 4096, .width = 11008};
  if (request.width.rows > 0) sizes.rows = request.width.rows;
  if (request.width.hidden > 0) sizes.hidden = request.width.hidden;
  if (request.width.width > 0) sizes.width = request.width.width;
  const WidthTable table = measure_widths(request.backend, request.options, sizes);
  Chapter chapter = anatomy::width_chapter(table, sizes.width);
  if (!request.width_file.empty()) {
    write_width_table(request.width_file, table);
    chapter.setup.emplace_back("stored in", request.width_file.string());
  }
  return chapter;
}

Chapter run_collectives(AnatomyRequest& request) {
  anatomy::CollectiveSizes sizes;
  sizes.model = model_sizes(request.is_large);
  sizes.model.sequences = 1;
  if (request.is_large) sizes.bytes.push_back(int64_t{1} << 28);
  return collectives_chapter(request.worlds, request.options, sizes, request.measured);
}

Chapter run_tuning(AnatomyRequest& request) {
  anatomy::TuningSizes sizes;
  sizes.model = {
      .vocab = 512, .hidden = 64, .ffn = 192, .layers = 2, .heads = 4, .kv_heads = 4, .sequences = 8, .length = 64};
  if (request.is_large) sizes.steps = 600;
  return tuning_chapter(request.backend, request.options, sizes);
}

Chapter run_loader(AnatomyRequest& request) {
  const ScratchFolder folder(request.folder, "anatomy");
  return loader_chapter(request.backend, request.options, {}, folder.path());
}

}  // namespace

const std::vector<AnatomyChapter>& anatomy_chapters() {
  static const std::vector<AnatomyChapter> kChapters = {
      {"embedding", "C4: bytes a second of the token table, both ways, against a copy", run_embedding},
      {"positions", "C5, L3: rotary positions beside ALiBi, and what 16-bit angles lose", run_positions},
      {"attention", "C6, L1: exact FLOPs, bytes against stored scores, speed, what tensor parallelism sends",
       run_attention},
      {"norm", "C8: growth of gradients through depth, backward's peak beside forward's", run_norm},
      {"collectives", "C3, C9: latency and bus bandwidth by size, and how much of a step waits", run_collectives},
      {"recompute", "C10: memory against time for every option and every k", run_recompute},
      {"kernels", "C18, L2, L5: every op of a step over the machine's measured best", run_kernels},
      {"width", "L6: feed-forward widths near the asked one, and what padding costs", run_width},
      {"loader", "C16: waiting for data with no, one and more workers, plain and compressed", run_loader},
      {"fragmentation", "C11: a step's tensors in a caching allocator and in our plan", run_fragmentation},
      {"tuning", "L13: short runs with one setting changed each", run_tuning},
  };
  return kChapters;
}

std::vector<const AnatomyChapter*> chosen_chapters(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const AnatomyChapter& chapter : anatomy_chapters()) known.emplace_back(chapter.name);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = nearest_name(name, known);
    throw ConfigError("anatomy", "unknown chapter", name, "a chapter of `litespark help anatomy`",
                      nearest.empty() ? "" : "did you mean " + nearest + "?");
  }
  std::vector<const AnatomyChapter*> chosen;
  for (const AnatomyChapter& chapter : anatomy_chapters()) {
    const bool is_named = std::find(names.begin(), names.end(), chapter.name) != names.end();
    if (names.empty() || is_named) chosen.push_back(&chapter);
  }
  return chosen;
}

}  // namespace litespark::cli
