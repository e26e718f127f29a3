// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "meter/timeline.h"
#include "support/error_text.h"

namespace litespark {
namespace {

SampledStep sample() {
  return {.step = 5,
          .spans = {{.scope = "other", .begin_seconds = 0.0, .end_seconds = 0.25},
                    {.scope = "forward.norm", .op = "rms_norm", .layer = 0, .begin_seconds = 0.25, .end_seconds = 0.5},
                    {.scope = "forward.qkv", .op = "matmul", .layer = 0, .begin_seconds = 0.5, .end_seconds = 1.5},
                    {.scope = "forward.norm", .op = "rms_norm", .layer = 1, .begin_seconds = 1.5, .end_seconds = 1.75},
                    {.scope = "other", .begin_seconds = 1.75, .end_seconds = 2.0}}};
}

TEST(Timeline, ScopesAddUpToTheStep) {
  Timeline timeline;
  timeline.add(sample());
  timeline.add(sample());
  EXPECT_EQ(timeline.num_steps(), 2);
  EXPECT_EQ(timeline.step_seconds(), 2.0);
  const std::vector<ScopeSeconds> scopes = timeline.scopes();
  ASSERT_EQ(scopes.size(), 3u);
  EXPECT_EQ(scopes[0].name, "forward.qkv");
  EXPECT_EQ(scopes[0].seconds, 1.0);
  EXPECT_EQ(scopes[0].share, 0.5);
  EXPECT_EQ(scopes[1].seconds + scopes[2].seconds, 1.0);
  EXPECT_EQ(scopes[0].share + scopes[1].share + scopes[2].share, 1.0);
}

TEST(Timeline, NothingSampledIsNoTime) {
  const Timeline timeline;
  EXPECT_EQ(timeline.step_seconds(), 0.0);
  EXPECT_TRUE(timeline.scopes().empty());
  EXPECT_TRUE(contains(timeline_json(timeline, {}, {}), "\"sampled_steps\": 0"));
  EXPECT_FALSE(contains(timeline_text(timeline, {}), "time of a step"));
}

TEST(Timeline, AKindIsTheNameUpToTheDot) {
  EXPECT_EQ(scope_kind("backward.attention"), "backward");
  EXPECT_EQ(scope_kind("other"), "other");
}

TEST(Timeline, TheRunsRowsAddUpToItsTime) {
  const RunSeconds run{.steps = 8, .data_wait = 1, .eval = 2, .sample = 1, .checkpoint = 2, .whole = 14};
  EXPECT_EQ(run.other(), 1.0);
  EXPECT_EQ((RunSeconds{.steps = 2, .whole = 1}).other(), 0.0);
  const std::string text = timeline_text({}, run);
  EXPECT_TRUE(contains(text, "evaluations"));
  EXPECT_TRUE(contains(text, "14.3 %"));
}

TEST(Timeline, TheConsoleSumsScopesBelowAHundredth) {
  Timeline timeline;
  timeline.add({.step = 5,
                .spans = {{.scope = "forward.qkv", .begin_seconds = 0.0, .end_seconds = 0.990},
                          {.scope = "data.wait", .begin_seconds = 0.990, .end_seconds = 0.994},
                          {.scope = "other", .begin_seconds = 0.994, .end_seconds = 1.0}}});
  const std::string text = timeline_text(timeline, {});
  EXPECT_TRUE(contains(text, "forward.qkv"));
  EXPECT_TRUE(contains(text, "2 smaller ones"));
  EXPECT_FALSE(contains(text, "data.wait"));
}

TEST(Timeline, TheFileHasTheDocumentedKeys) {
  Timeline timeline;
  timeline.add(sample());
  const std::string json =
      timeline_json(timeline, {.steps = 2, .eval = 1, .whole = 3}, {.seconds = 0.5, .share = 0.25});
  EXPECT_TRUE(contains(json, "{\"name\": \"forward.qkv\", \"kind\": \"forward\", \"seconds\": 1.0, \"share\": 0.5}"));
  EXPECT_TRUE(
      contains(json,
               "\"run\": {\"seconds\": 3.0, \"steps_seconds\": 2.0, \"data_wait_seconds\": 0.0, "
               "\"eval_seconds\": 1.0, \"sample_seconds\": 0.0, \"checkpoint_seconds\": 0.0, \"other_seconds\": 0.0}"));
  EXPECT_TRUE(contains(json, "\"observing\": {\"seconds\": 0.5, \"share\": 0.25}"));
}

TEST(Timeline, ATraceHasATrackOfPhasesOneOfScopesOneOfOps) {
  const std::string trace = chrome_trace_json(sample());
  EXPECT_TRUE(contains(trace, "\"traceEvents\": ["));
  // The forward pass is one event; its scopes are three, layer by layer; only ops stand in the third track.
  EXPECT_TRUE(contains(trace,
                       "{\"name\": \"forward\", \"cat\": \"forward.norm\", \"ph\": \"X\", \"pid\": 1, "
                       "\"tid\": 1, \"ts\": 250000.0, \"dur\": 1500000.0"));
  EXPECT_TRUE(contains(trace,
                       "{\"name\": \"forward.norm\", \"cat\": \"forward.norm\", \"ph\": \"X\", \"pid\": 1, "
                       "\"tid\": 2, \"ts\": 1500000.0, \"dur\": 250000.0, "
                       "\"args\": {\"scope\": \"forward.norm\", \"layer\": 1}}"));
  EXPECT_TRUE(contains(trace, "{\"name\": \"matmul\""));
  EXPECT_FALSE(contains(trace, "{\"name\": \"\""));
}

}  // namespace
}  // namespace litespark
