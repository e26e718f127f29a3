// SPDX-License-Identifier: Apache-2.0
#include "spec/sharded_tensors.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "core/checked.h"

namespace litespark {
namespace {

bool is_of_vectors(const Program& program, const Bucket& bucket) {
  return !program.params.params[static_cast<size_t>(bucket.params.front())].is_matrix();
}

/// A tied embedding of two pipeline stages, which add up their sums: a checkpoint has room for one stage's residual.
bool is_held_twice(const Program& program, const Bucket& bucket) {
  return program.options.stages > 1 && program.config.tie_word_embeddings && bucket.name == "embedding";
}

/// A layer's gradients leave in parts, so that what is left to send when backward ends is little. But each call costs
/// some us, and each bucket the padding that makes pieces equal.
struct BucketLimits {
  int64_t most = std::numeric_limits<int64_t>::max();  ///< elements that several matrices may have together
  int64_t least = 0;                                   ///< elements below which the next matrix joins whatever its size
};

BucketLimits bucket_limits(const Program& program) {
  constexpr int64_t kParts = 32;
  constexpr int64_t kLeastBlocks = 8;  // of each piece, of which less than one is padding
  const ProgramOptions& options = program.options;
  if (!options.meets_data_ranks()) return {};  // nobody is told anything
  if (options.bucket_elements > 0) return {.most = options.bucket_elements, .least = 0};
  int64_t elements = 0;
  for (const ParamSpec& spec : program.params.params) elements += spec.is_matrix() ? spec.shape.num_elements() : 0;
  return {.most = elements / kParts, .least = kLeastBlocks * kShardAlignment * options.data_ranks};
}

/// The bucket of a parameter, in the order in which backward finishes them; made when it is the first.
Bucket& bucket_for(std::vector<Bucket>& buckets, const ParamSpec& spec, const BucketLimits& limits) {
  std::string name = spec.cut && !spec.cut->is_replicated ? "cut_vectors" : "small";
  if (spec.is_matrix()) name = spec.layer < 0 ? spec.name : "layers." + std::to_string(spec.layer);
  const bool is_of_layer = spec.is_matrix() && spec.layer >= 0;
  const auto has_room = [&](const Bucket& bucket) {
    return bucket.size < limits.least || bucket.size <= limits.most - spec.shape.num_elements();
  };
  // Of a layer the last one alone: order is that of backward.
  const auto found = std::find_if(buckets.rbegin(), buckets.rend(), [&](const Bucket& b) { return b.name == name; });
  if (found != buckets.rend() && (!is_of_layer || has_room(*found))) return *found;
  buckets.push_back({.name = name, .layer = is_of_layer ? spec.layer : -1});
  return buckets.back();
}

/// Buckets that share a layer are told apart by a number, in the order in which backward finishes them.
void name_parts(std::vector<Bucket>& buckets) {
  const auto is_of = [](int64_t layer) { return [layer](const Bucket& bucket) { return bucket.layer == layer; }; };
  int64_t part = 0;
  for (size_t b = 0; b < buckets.size(); ++b) {
    const int64_t layer = buckets[b].layer;
    if (layer < 0 || std::count_if(buckets.begin(), buckets.end(), is_of(layer)) == 1) continue;
    part = b > 0 && buckets[b - 1].layer == layer ? part + 1 : 0;
    buckets[b].name += "." + std::to_string(part);
  }
}

class ShardDeclarer {
 public:
  ShardDeclarer(Program& program, bool packs)
      : program_(program), packs_(packs), places_(program.params.params.size()) {}

  void declare() {
    make_buckets();
    program_.param_tensors.resize(places_.size());
    program_.shards.resize(places_.size());
    declare_copies();
    declare_weights();
    if (program_.options.has_training) {
      declare_gradients();
      declare_residuals();
      const DType moments = program_.options.moments;
      declare_shards("first_moment", moments, Owner::kOptimizer, &ParamTensors::first_moment, shared_buckets());
      declare_shards("second_moment", moments, Owner::kOptimizer, &ParamTensors::second_moment, shared_buckets());
    }
    cut_params();
  }

 private:
  using Choice = std::function<bool(const Bucket&)>;
  using Field = TensorId ParamTensors::*;
  struct Place {
    size_t bucket = 0;
    int64_t offset = 0;
  };

  /// Of which each rank updates a piece.
  static Choice shared_buckets() {
    return [](const Bucket& bucket) { return !bucket.is_copied; };
  }
  Choice matrices() const {
    return [this](const Bucket& bucket) { return !is_of_vectors(program_, bucket); };
  }
  Choice shared_vectors() const {
    return [this](const Bucket& bucket) { return is_of_vectors(program_, bucket) && !bucket.is_copied; };
  }

  int64_t ranks() const { return program_.options.data_ranks; }
  int64_t shard_size(const Bucket& bucket) const { return bucket.size / ranks(); }

  /// Reverse table order is that in which backward finishes; what is small comes last.
  void make_buckets() {
    std::vector<Bucket>& buckets = program_.buckets;
    const BucketLimits limits = bucket_limits(program_);
    for (size_t index = places_.size(); index-- > 0;) {
      const ParamSpec& spec = program_.params.params[index];
      Bucket& bucket = bucket_for(buckets, spec, limits);
      places_[index].offset = bucket.size;
      bucket.params.push_back(static_cast<int64_t>(index));
      bucket.offsets.push_back(bucket.size);
      bucket.size += round_up(spec.shape.num_elements(), kFlatAlignment);
    }
    std::stable_partition(buckets.begin(), buckets.end(), matrices());
    name_parts(buckets);
    for (size_t b = 0; b < buckets.size(); ++b) {
      buckets[b].size = round_up(buckets[b].size, ranks() * kShardAlignment);
      buckets[b].is_copied = program_.options.sync_small_every > 1 && is_of_vectors(program_, buckets[b]);
      buckets[b].is_compressed = program_.options.compression != Compression::kNone && !buckets[b].is_copied &&
                                 !is_held_twice(program_, buckets[b]);
      for (const int64_t param : buckets[b].params) places_[static_cast<size_t>(param)].bucket = b;
    }
  }

  TensorId parent(const std::string& name, DType dtype, Owner owner, int64_t size) {
    return program_.tensors.add(
        {.name = name, .dtype = dtype, .shape = {size}, .owner = owner, .storage = Storage::kPersistent});
  }

  /// Whole tensors of the chosen buckets behind one another, with a view of each parameter; this rank's piece becomes
  /// the shard's `field`. Returns each bucket's whole tensor, absent where it was not chosen.
  std::vector<TensorId> declare_whole(const std::string& name, DType dtype, Owner owner, Field field,
                                      const Choice& is_chosen) {
    std::vector<TensorId> wholes(program_.buckets.size());
    int64_t size = 0;
    for (const Bucket& bucket : program_.buckets) size += is_chosen(bucket) ? bucket.size : 0;
    if (size == 0) return wholes;
    const TensorId root = parent(name, dtype, owner, size);
    int64_t offset = 0;
    for (size_t b = 0; b < wholes.size(); ++b) {
      Bucket& bucket = program_.buckets[b];
      if (!is_chosen(bucket)) continue;
      wholes[b] = place_whole(bucket, root, offset, name, field);
      offset += bucket.size;
    }
    return wholes;
  }

  /// A bucket's whole tensor at `offset` of `root`.
  TensorId place_whole(Bucket& bucket, TensorId root, int64_t offset, const std::string& name, Field field) {
    const TensorId whole = program_.tensors.view(root, bucket.name + "." + name, {bucket.size}, offset);
    bucket.shard.*field = program_.tensors.view(whole, bucket.name + "." + name + ".piece", {shard_size(bucket)},
                                                program_.options.data_rank * shard_size(bucket));
    for (const int64_t param : bucket.params) {
      const auto index = static_cast<size_t>(param);
      const ParamSpec& spec = program_.params.params[index];
      program_.param_tensors[index].*field =
          program_.tensors.view(whole, spec.name + "." + name, spec.shape, places_[index].offset);
    }
    return whole;
  }

  /// What every rank updates all of by itself: behind one another, so that one call brings all of it together. Moments
  /// are f32 whatever the others are, as noise would be averaged away.
  void declare_copies() {
    static constexpr std::pair<const char*, Field> kFields[] = {{"master", &ParamTensors::master},
                                                                {"first_moment", &ParamTensors::first_moment},
                                                                {"second_moment", &ParamTensors::second_moment}};
    int64_t size = 0;
    for (const Bucket& bucket : program_.buckets) size += bucket.is_copied ? bucket.size : 0;
    if (size == 0) return;
    program_.copies = parent("copies", DType::kF32, Owner::kOptimizer, std::ssize(kFields) * size);
    int64_t offset = 0;
    for (const auto& [name, field] : kFields) {
      for (Bucket& bucket : program_.buckets) {
        if (!bucket.is_copied) continue;
        place_whole(bucket, program_.copies, offset, name, field);
        offset += bucket.size;
      }
    }
  }

  /// As declare_whole, of tensors that the other ranks' updates must reach.
  void declare_gathered(const std::string& name, DType dtype, Owner owner, Field field, const Choice& is_chosen) {
    const std::vector<TensorId> wholes = declare_whole(name, dtype, owner, field, is_chosen);
    for (size_t b = 0; b < wholes.size(); ++b) {
      if (!wholes[b].has_value()) continue;
      Bucket& bucket = program_.buckets[b];
      bucket.gathered.push_back({.whole = wholes[b], .piece = bucket.shard.*field});
    }
  }

  /// This rank's pieces alone.
  void declare_shards(const std::string& name, DType dtype, Owner owner, Field field, const Choice& is_chosen) {
    int64_t size = 0;
    for (const Bucket& bucket : program_.buckets) size += is_chosen(bucket) ? shard_size(bucket) : 0;
    if (size == 0) return;
    const TensorId root = parent(name, dtype, owner, size);
    int64_t offset = 0;
    for (Bucket& bucket : program_.buckets) {
      if (!is_chosen(bucket)) continue;
      bucket.shard.*field = program_.tensors.view(root, bucket.name + "." + name, {shard_size(bucket)}, offset);
      offset += shard_size(bucket);
    }
  }

  void declare_weights() {
    const ProgramOptions& options = program_.options;
    const bool has_masters = options.master == MasterWeights::kF32;
    const bool has_copies = options.compute == DType::kBF16 && !packs_;
    // Norms, biases, and whatever is multiplied in f32 or packed from f32: the master is the weight.
    const bool reads_masters = has_masters && !has_copies;
    declare_gathered("master", DType::kF32, Owner::kOptimizer, &ParamTensors::master,
                     reads_masters ? shared_buckets() : shared_vectors());
    if (reads_masters) return;
    declare_gathered("weight", DType::kBF16, Owner::kWeights, &ParamTensors::weight, matrices());
    if (has_masters) declare_shards("master_shard", DType::kF32, Owner::kOptimizer, &ParamTensors::master, matrices());
    if (options.master != MasterWeights::kBF16Remainder) return;
    if (packs_) {
      declare_gathered("remainder", DType::kU16, Owner::kOptimizer, &ParamTensors::remainder, matrices());
    } else {
      declare_shards("remainder_shard", DType::kU16, Owner::kOptimizer, &ParamTensors::remainder, matrices());
    }
  }

  void declare_gradients() {
    const bool has_bf16 = program_.options.gradient == DType::kBF16;
    const Choice in_bf16 = [has_bf16](const Bucket& bucket) { return has_bf16 && bucket.layer >= 0; };
    const Choice in_f32 = [in_bf16](const Bucket& bucket) { return !in_bf16(bucket); };
    if (program_.options.shards_gradients) {
      const Choice shared_in_f32 = [in_f32](const Bucket& bucket) { return in_f32(bucket) && !bucket.is_copied; };
      declare_shards("gradient", DType::kF32, Owner::kGradients, &ParamTensors::gradient, shared_in_f32);
      declare_shards("gradient_bf16", DType::kBF16, Owner::kGradients, &ParamTensors::gradient, in_bf16);
      const auto copied = declare_whole("copied_gradient", DType::kF32, Owner::kGradients, &ParamTensors::gradient,
                                        [](const Bucket& bucket) { return bucket.is_copied; });
      for (size_t b = 0; b < program_.buckets.size(); ++b) program_.buckets[b].gradient = copied[b];
      return;
    }
    const auto of_f32 = declare_whole("gradient", DType::kF32, Owner::kGradients, &ParamTensors::gradient, in_f32);
    const auto of_bf16 =
        declare_whole("gradient_bf16", DType::kBF16, Owner::kGradients, &ParamTensors::gradient, in_bf16);
    for (size_t b = 0; b < program_.buckets.size(); ++b) {
      program_.buckets[b].gradient = of_f32[b].has_value() ? of_f32[b] : of_bf16[b];
    }
  }

  /// Of all gradients that are told in 16 bits, since every rank rounds what it tells of each.
  void declare_residuals() {
    if (!program_.options.has_error_feedback) return;
    const auto wholes = declare_whole("residual", DType::kF32, Owner::kCommunication, &ParamTensors::residual,
                                      [](const Bucket& bucket) { return bucket.is_compressed; });
    for (size_t b = 0; b < wholes.size(); ++b) {
      program_.buckets[b].residual = wholes[b];
      if (wholes[b].has_value()) program_.residual = program_.tensors.root(wholes[b]).first;
    }
  }

  /// Views of what each parameter has in this rank's piece of its bucket.
  void cut_params() {
    static constexpr std::pair<const char*, Field> kFields[] = {{"master", &ParamTensors::master},
                                                                {"gradient", &ParamTensors::gradient},
                                                                {"first_moment", &ParamTensors::first_moment},
                                                                {"second_moment", &ParamTensors::second_moment},
                                                                {"weight", &ParamTensors::weight},
                                                                {"remainder", &ParamTensors::remainder}};
    for (size_t index = 0; index < places_.size(); ++index) {
      const ParamSpec& spec = program_.params.params[index];
      const Bucket& bucket = program_.buckets[places_[index].bucket];
      if (bucket.is_copied) {
        program_.shards[index] = {
            .first = 0, .count = spec.shape.num_elements(), .tensors = program_.param_tensors[index]};
        continue;
      }
      const int64_t piece = program_.options.data_rank * shard_size(bucket);
      const int64_t offset = places_[index].offset;
      const int64_t first = std::max(offset, piece);
      const int64_t end = std::min(offset + spec.shape.num_elements(), piece + shard_size(bucket));
      if (end <= first) continue;
      ParamShard& shard = program_.shards[index];
      shard = {.first = first - offset, .count = end - first, .tensors = {}};
      for (const auto& [name, field] : kFields) {
        if (!(bucket.shard.*field).has_value()) continue;
        shard.tensors.*field =
            program_.tensors.view(bucket.shard.*field, spec.name + "." + name + ".piece", {shard.count}, first - piece);
      }
    }
  }

  Program& program_;
  bool packs_;
  std::vector<Place> places_;
};

}  // namespace

void declare_sharded_tensors(Program& program, bool packs) {
  ShardDeclarer(program, packs).declare();
}

}  // namespace litespark
