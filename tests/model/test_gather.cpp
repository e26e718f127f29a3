// SPDX-License-Identifier: Apache-2.0
// What ranks hold in pieces comes together on the host as one rank would hold it, through rooms of any size.
#include <gtest/gtest.h>

#include "dist/local_world.h"
#include "model/gather.h"
#include "model/weights.h"
#include "ops/cpu/cpu_backend.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

struct Formats {
  MasterWeights master = MasterWeights::kF32;
  DType moments = DType::kF32;
  DType gradient = DType::kF32;
};

Program program_of(const Formats& formats, const BackendSizes& sizes, int64_t ranks, int64_t rank) {
  ProgramOptions options = test::small_options();
  options.compute = DType::kBF16;
  options.master = formats.master;
  options.moments = formats.moments;
  options.gradient = formats.gradient;
  options.data_ranks = ranks;
  options.data_rank = rank;
  return make_llama_program(test::small_config(), options, sizes);
}

/// Every element is its own place in flat order, scaled so that bf16 holds it.
std::vector<float> numbered(const ParamSpec& param) {
  std::vector<float> values(static_cast<size_t>(param.shape.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((param.flat_offset + static_cast<int64_t>(i)) % 251) - 100.0f;
  }
  return values;
}

TEST(Gather, BringsMastersAndMomentsTogetherInEveryFormat) {
  for (const Formats& formats :
       {Formats{}, Formats{.master = MasterWeights::kBF16Remainder}, Formats{.master = MasterWeights::kBF16},
        Formats{.moments = DType::kBF16}, Formats{.gradient = DType::kBF16}}) {
    run_local_ranks(3, {}, [&](Communicator& ranks) {
      const auto backend = make_cpu_backend({.threads = 1});
      Executor executor(program_of(formats, backend->sizes(), 3, ranks.rank()), *backend, &ranks);
      const Program& program = executor.program();
      for (size_t p = 0; p < program.params.params.size(); ++p) {
        const std::vector<float> values = numbered(program.params.params[p]);
        set_parameter(executor, static_cast<int64_t>(p), values);
        const ParamShard& shard = program.shards[p];
        if (shard.count == 0) continue;
        write_floats(executor, shard.tensors.first_moment,
                     std::span(values).subspan(static_cast<size_t>(shard.first), static_cast<size_t>(shard.count)));
      }
      std::vector<float> masters(static_cast<size_t>(ranks.rank() == 1 ? program.params.flat_size : 0));
      std::vector<float> moments = masters;
      gather_masters(executor, masters);
      gather_moment(executor, &ParamTensors::first_moment, moments);
      if (ranks.rank() != 1) return;
      for (const ParamSpec& param : program.params.params) {
        const std::vector<float> expected = numbered(param);
        for (const auto* flat : {&masters, &moments}) {
          const auto first = flat->begin() + static_cast<std::ptrdiff_t>(param.flat_offset);
          EXPECT_TRUE(std::equal(expected.begin(), expected.end(), first)) << param.name;
        }
      }
    });
  }
}

}  // namespace
}  // namespace litespark
