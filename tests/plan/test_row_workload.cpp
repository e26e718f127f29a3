// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "plan/row_workload.h"
#include "support/error_text.h"

namespace litespark {
namespace {

ValidationRow llama_row() {
  ValidationRow row;
  row.line = 2;
  row.source = "NVIDIA/dgxc-benchmarking v25.04";
  row.hardware = "H100-80GB SXM";
  row.model = "llama3.1-8b";
  row.precision = "bf16";
  row.metric = "iteration_time";
  row.value = 12.27;
  row.gpus = 8;
  row.layers = 32;
  row.hidden = 4096;
  row.heads = 32;
  row.kv_heads = 8;
  row.ffn = 14336;
  row.vocab = 128256;
  row.seqlen = 8192;
  row.tp = row.pp = row.vpp = row.ep = row.micro_batch = 1;
  row.dp = 4;
  row.global_batch = 128;
  row.remarks = "cp=2; GA=32";
  return row;
}

TEST(RowWorkload, ReadsAWholeRow) {
  const RowWorkload what = workload_of_row(llama_row());
  EXPECT_EQ(what.exclusion, "");
  EXPECT_EQ(what.hardware.name, "H100");
  EXPECT_EQ(what.software.name, "NeMo");
  EXPECT_EQ(what.workload.layout.cp, 2);
  EXPECT_EQ(what.workload.layout.gpus(), 8);
  EXPECT_EQ(what.workload.micro_batches(), 32);
  EXPECT_TRUE(what.workload.shape.gated);
}

TEST(RowWorkload, WhatTheDegreesLeaveIsContextParallelism) {
  ValidationRow row = llama_row();
  row.remarks.clear();
  EXPECT_EQ(workload_of_row(row).workload.layout.cp, 2);
  row.dp.reset();
  EXPECT_EQ(workload_of_row(row).workload.layout.dp, 8);
  row.dp = 4;
  row.remarks = "HSDP";
  EXPECT_EQ(workload_of_row(row).workload.layout.dp, 8);
}

TEST(RowWorkload, EachExclusionSaysWhy) {
  const auto excluded = [](auto change) {
    ValidationRow row = llama_row();
    change(row);
    return workload_of_row(row).exclusion;
  };
  EXPECT_TRUE(contains(excluded([](ValidationRow& r) { r.hardware = "TPU v5p"; }), "TPU v5p"));
  EXPECT_TRUE(contains(excluded([](ValidationRow& r) { r.model = "mamba-8b"; }), "mamba-8b"));
  EXPECT_TRUE(contains(excluded([](ValidationRow& r) { r.hidden.reset(); }), "hidden"));
  EXPECT_TRUE(contains(excluded([](ValidationRow& r) { r.gpus = 9; }), "9 gpus"));
  EXPECT_TRUE(contains(excluded([](ValidationRow& r) { r.gpus.reset(); }), "gpus is not stated"));
  EXPECT_TRUE(contains(excluded([](ValidationRow& r) { r.global_batch = 127; }), "multiple"));
  EXPECT_TRUE(contains(excluded([](ValidationRow& r) { r.defect = "row 2, column tp: bad"; }), "column tp"));
  EXPECT_TRUE(contains(excluded([](ValidationRow& r) {
                         r.pp = 2;
                         r.dp = 2;
                         r.global_batch.reset();
                       }),
                       "global_batch"));
}

TEST(RowWorkload, RecomputeAndSequenceParallelismAreReadAsWritten) {
  const auto read = [](const char* recompute, const char* remarks) {
    ValidationRow row = llama_row();
    row.recompute = recompute;
    row.remarks = std::string("cp=2; ") + remarks;
    return workload_of_row(row).workload;
  };
  EXPECT_EQ(read("full", "").recompute, LayerRecompute::kFull);
  EXPECT_EQ(read("selective (op-level)", "").recompute, LayerRecompute::kSelective);
  EXPECT_EQ(read("", "").recompute, LayerRecompute::kNone);
  EXPECT_FALSE(read("selective no SP", "").layout.sequence_parallel);
  EXPECT_TRUE(read("none+SP", "TP-only baseline").layout.sequence_parallel);
  EXPECT_FALSE(read("full", "no sequence parallelism").layout.sequence_parallel);
}

TEST(RowWorkload, PlainAndGatedFeedForwardLayersAreToldApart) {
  ValidationRow row = llama_row();
  row.model = "mpt-7b";
  EXPECT_FALSE(workload_of_row(row).workload.shape.gated);
  row.model = "a new model";
  EXPECT_TRUE(workload_of_row(row).workload.shape.gated);
  row.ffn = 16384;
  row.kv_heads = 32;
  EXPECT_FALSE(workload_of_row(row).workload.shape.gated);
}

TEST(RowWorkload, AnUnstatedMicroBatchIsTheFastestThatFits) {
  ValidationRow row = llama_row();
  row.micro_batch.reset();
  const RowWorkload what = workload_of_row(row);
  EXPECT_GE(what.workload.micro_batch, 1);
  EXPECT_EQ(128 % (what.workload.micro_batch * 4), 0);
}

}  // namespace
}  // namespace litespark
