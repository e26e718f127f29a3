// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "dist/launch_environment.h"
#include "support/error_text.h"

namespace litespark::dist {
namespace {

TEST(LaunchEnvironment, WithoutALauncherThereIsNone) {
  EXPECT_FALSE(find_launch({}));
  EXPECT_FALSE(find_launch({{"HOME", "/root"}, {"MASTER_ADDR", "x"}}));
}

TEST(LaunchEnvironment, ReadsTorchrun) {
  const auto place = find_launch({{"RANK", "5"},
                                  {"WORLD_SIZE", "8"},
                                  {"LOCAL_RANK", "1"},
                                  {"LOCAL_WORLD_SIZE", "4"},
                                  {"MASTER_ADDR", "gn07"},
                                  {"MASTER_PORT", "29500"},
                                  {"TORCHELASTIC_RUN_ID", "run"},
                                  {"TORCHELASTIC_RESTART_COUNT", "2"}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, "torchrun");
  EXPECT_EQ(place->rank, 5);
  EXPECT_EQ(place->size, 8);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->local_size, 4);
  EXPECT_EQ(place->job, "run");
  EXPECT_EQ(place->attempt, 2);
  EXPECT_EQ(place->host, "gn07");
  EXPECT_EQ(place->port, 29501);  // torchrun's own store has 29500
  EXPECT_EQ(find_launch({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}})->port, 29500);
}

TEST(LaunchEnvironment, ReadsSrun) {
  const auto place = find_launch({{"SLURM_PROCID", "3"},
                                  {"SLURM_NTASKS", "4"},
                                  {"SLURM_LOCALID", "1"},
                                  {"SLURM_JOB_ID", "77"},
                                  {"SLURM_STEP_ID", "0"},
                                  {"SLURM_RESTART_COUNT", "1"},
                                  {"SLURM_STEP_NODELIST", "gn[01-03,7]"}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, "srun");
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->job, "77.0");
  EXPECT_EQ(place->attempt, 1);
  EXPECT_EQ(place->host, "gn01");
}

TEST(LaunchEnvironment, ABatchScriptIsNotATaskOfItsJob) {
  EXPECT_FALSE(find_launch({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "77"}}));
  EXPECT_FALSE(find_launch({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "batch"}}));
  EXPECT_FALSE(find_launch({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_ID", "0"}}));
}

TEST(LaunchEnvironment, ReadsMpirunAndMpich) {
  const auto open_mpi = find_launch({{"OMPI_COMM_WORLD_RANK", "1"},
                                     {"OMPI_COMM_WORLD_SIZE", "2"},
                                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                     {"PMIX_NAMESPACE", "ns"}});
  ASSERT_TRUE(open_mpi);
  EXPECT_EQ(open_mpi->launcher, "mpirun");
  EXPECT_EQ(open_mpi->local_rank, 1);
  const auto mpich = find_launch({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}});
  ASSERT_TRUE(mpich);
  EXPECT_EQ(mpich->size, 3);
}

TEST(LaunchEnvironment, OursWinsOverTheStepItRunsIn) {
  const auto place = find_launch({{"LITESPARK_RANK", "1"},
                                  {"LITESPARK_SIZE", "2"},
                                  {"LITESPARK_HOST", "127.0.0.1"},
                                  {"LITESPARK_PORT", "4000"},
                                  {"SLURM_PROCID", "0"},
                                  {"SLURM_NTASKS", "4"},
                                  {"SLURM_STEP_ID", "0"}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, "litespark");
  EXPECT_EQ(place->port, 4000);
}

TEST(LaunchEnvironment, TwoLaunchersThatDisagreeAreBothNamed) {
  const std::string text = error_text<ConfigError>([] {
    find_launch({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  });
  EXPECT_TRUE(contains(text, "torchrun says rank 0 of 2, mpirun says rank 1 of 2"));
  EXPECT_TRUE(find_launch({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}));
}

TEST(LaunchEnvironment, NamesTheVariableThatIsWrong) {
  const auto refusal = [](const Environment& environment) {
    return error_text<ConfigError>([&] { find_launch(environment); });
  };
  EXPECT_TRUE(
      contains(refusal({{"RANK", "one"}, {"WORLD_SIZE", "2"}}), "[RANK] is no whole number of 0 or more; got one"));
  EXPECT_TRUE(contains(refusal({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), "[RANK]"));
  EXPECT_TRUE(contains(refusal({{"RANK", ""}, {"WORLD_SIZE", "2"}}), "[RANK]"));
  EXPECT_TRUE(contains(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), "got 2, expected 0 to 1"));
  EXPECT_TRUE(contains(refusal({{"RANK", "0"}}), "[WORLD_SIZE] is not set although RANK is"));
  EXPECT_TRUE(contains(refusal({{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}), "too large"));
}

TEST(LaunchEnvironment, FindsTheFirstHostOfASlurmList) {
  EXPECT_EQ(first_slurm_host("gn01"), "gn01");
  EXPECT_EQ(first_slurm_host("gn01,gn02"), "gn01");
  EXPECT_EQ(first_slurm_host("gn[01-03,7],x"), "gn01");
  EXPECT_EQ(first_slurm_host("gn[7]"), "gn7");
  EXPECT_EQ(first_slurm_host("gn[3-4]-ib,x"), "gn3-ib");
  EXPECT_THROW(first_slurm_host("gn["), ConfigError);
  EXPECT_THROW(first_slurm_host("gn[x]"), ConfigError);
}

}  // namespace
}  // namespace litespark::dist
