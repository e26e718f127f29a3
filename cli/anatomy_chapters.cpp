// SPDX-License-Identifier: Apache-2.0
#include "anatomy_chapters.h"

#include <algorithm>

#include "anatomy/attention.h"
#include "anatomy/embedding.h"
#include "anatomy/fragmentation.h"
#include "anatomy/kernels.h"
#include "anatomy/loader.h"
#include "anatomy/norm.h"
#include "anatomy/recompute.h"
#include "core/error.h"
#include "core/nearest.h"
#include "scratch_folder.h"

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
  return recompute_chapter(request.backend, request.options, model_sizes(request.is_large));
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

Chapter run_loader(AnatomyRequest& request) {
  const ScratchFolder folder(request.folder, "anatomy");
  return loader_chapter(request.backend, request.options, {}, folder.path());
}

}  // namespace

const std::vector<AnatomyChapter>& anatomy_chapters() {
  static const std::vector<AnatomyChapter> kChapters = {
      {"embedding", "C4: bytes a second of the token table, both ways, against a copy", run_embedding},
      {"attention", "C6, L1: exact FLOPs, bytes against stored scores, speed, what tensor parallelism sends",
       run_attention},
      {"norm", "C8: growth of gradients through depth, backward's peak beside forward's", run_norm},
      {"recompute", "C10: memory against time for every option and every k", run_recompute},
      {"kernels", "C18, L2, L5: every op of a step over the machine's measured best", run_kernels},
      {"loader", "C16: waiting for data with no, one and more workers, plain and compressed", run_loader},
      {"fragmentation", "C11: a step's tensors in a caching allocator and in our plan", run_fragmentation},
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
