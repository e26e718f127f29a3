// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "plan/validation_report.h"
#include "support/error_text.h"

namespace litespark {
namespace {

constexpr const char* kRows =
    "id,source,hardware,gpus,model,layers,hidden,heads,kv_heads,ffn,vocab,seqlen,tp,pp,dp,ep,vpp,micro_batch,"
    "global_batch,recompute,precision,metric,value,unit,remarks,extra\n"
    "good,\"a \"\"source\"\"\",H100,8,llama3.1-8b,32,4096,32,8,14336,128256,8192,1,1,8,1,1,1,128,,bf16,iteration_time,"
    "11.5,s,,\n"
    "bad,b,H100,8,llama3.1-8b,many,4096,32,8,14336,128256,8192,1,1,8,1,1,1,128,,bf16,iteration_time,11.5,s,,\n";

Validation validation(const ValidationFile& file) {
  return validate(file, ValidationFit::kScalar, nullptr);
}

TEST(ValidationReport, TextShowsErrorsFactorsAndReasons) {
  const ValidationFile file = read_validation_rows(kRows, "rows");
  const std::string text = validation_text(validation(file));
  for (const char* part : {"\"extra\" is not known", "H100  x ", "all sources", "step_time", "median",
                           "bad (step_time): row 3, column layers: got \"many\""}) {
    EXPECT_TRUE(contains(text, part));
  }
}

TEST(ValidationReport, JsonHasEveryPromisedKey) {
  const ValidationFile file = read_validation_rows(kRows, "rows");
  const std::string text = validation_json(validation(file));
  for (const char* part :
       {"\"step_time\": {\"n\": 1, \"excluded\": 1, \"median_abs_error_percent\": ", "\"p90_abs_error_percent\": ",
        "\"max_abs_error_percent\": ", "\"signed_bias_percent\": ", "\"memory\": {\"n\": 0", "\"energy\": {",
        "\"bandwidth\": {", "\"per_source\": {", "\"a \\\"source\\\"\": {\"n\": 1", "\"fit\": \"scalar\"",
        "\"reason\": \"row 3, column layers"}) {
    EXPECT_TRUE(contains(text, part));
  }
}

TEST(ValidationReport, NoRowsGiveNoNumbers) {
  const ValidationFile file = read_validation_rows("metric,value\n", "rows");
  EXPECT_TRUE(contains(validation_json(validation(file)), "\"median_abs_error_percent\": null"));
}

}  // namespace
}  // namespace litespark
