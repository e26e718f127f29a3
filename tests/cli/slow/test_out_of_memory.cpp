// SPDX-License-Identifier: Apache-2.0
// The n-th allocation of a run fails, for many n: the program ends and says why, leaves no half file, and the run goes
// on afterwards to the same bits.
#include <gtest/gtest.h>

#include "cli/small_run.h"
#include "core/rng.h"
#include "support/error_text.h"
#include "support/slow_loops.h"

namespace litespark {
namespace {

constexpr const char* kLast = "/checkpoints/step-6/model.safetensors";

class OutOfMemory : public testing::Test {
 protected:
  ProgramResult train(const std::string& out, int64_t failing_allocation) const {
    const std::vector<std::string> launcher = {"env", "LD_PRELOAD=" LITESPARK_FAULTY_LIBC,
                                               "LITESPARK_FAIL_MARK=" + run_.path("mark").string(),
                                               "LITESPARK_FAIL_ALLOCATION=" + std::to_string(failing_allocation)};
    std::filesystem::remove(run_.path("mark"));
    return run_.train({"--checkpoint.every=2", "--meter.peak_tflops=1", "--out=" + out}, launcher);
  }
  bool has_failed() const { return run_.exists("mark"); }

  /// The largest number of an allocation that a whole run reaches, within a per cent.
  int64_t num_allocations() const {
    int64_t low = 1;
    int64_t high = int64_t{1} << 24;
    while (high - low > low / 100 + 1) {
      const int64_t middle = low + (high - low) / 2;
      std::filesystem::remove_all(run_.path("count"));
      (void)train("count", middle);
      (has_failed() ? low : high) = middle;
    }
    return low;
  }

  SmallRun run_;
};

TEST_F(OutOfMemory, AtAnyAllocationSaysSoAndLeavesNoHalfFile) {  // fault:B14
  ASSERT_EQ(train("whole", 0).exit_code, 0);
  const std::string expected = run_.text(std::string("whole") + kLast);
  const int64_t allocations = num_allocations();
  ASSERT_GT(allocations, 1000);
  const RandomStream random(3, 1);
  const int rounds = test::slow_loops(150, 2000);
  int failures = 0;
  int refusals = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto number =
        static_cast<int64_t>(1 + random.below(static_cast<uint64_t>(round), static_cast<uint64_t>(allocations)));
    std::filesystem::remove_all(run_.path("out"));
    const ProgramResult hit = train("out", number);
    const std::string where = "allocation " + std::to_string(number) + ": " + hit.errors;
    failures += has_failed() ? 1 : 0;
    // An optional buffer may do without. A thread whose storage finds no memory cannot be made, which the system calls
    // a resource that is not there now.
    const bool is_refused = (hit.exit_code == 2 && (contains(hit.errors, "litespark: [memory]") ||
                                                    contains(hit.errors, "litespark: [host] refuses a thread"))) ||
                            (hit.exit_code == 4 && contains(hit.errors, "Cannot allocate memory"));
    EXPECT_TRUE(hit.exit_code == 0 || is_refused) << hit.exit_code << " " << where;
    refusals += is_refused ? 1 : 0;
    const ProgramResult again = train("out", 0);
    EXPECT_EQ(again.exit_code, 0) << where << again.errors;
    EXPECT_EQ(run_.text(std::string("out") + kLast), expected) << where;
    if (HasFailure()) return;
  }
  EXPECT_GT(failures, rounds * 9 / 10);
  EXPECT_GT(refusals, rounds * 3 / 4);
}

}  // namespace
}  // namespace litespark
