// SPDX-License-Identifier: Apache-2.0
// What goes out comes back.
#include "ops/cpu_conformance.h"

namespace litespark::test {
namespace {

TEST(Offload, CopiesBothWays) {
  OpCase<op::OffloadStore<Tensor>> store{
      .name = "store",
      .op = {.host = shape_only(DType::kBF16, {7, 5}), .device = shape_only(DType::kBF16, {7, 5}), .ticket = 3},
      .inputs = {}};
  fill_at_random(store, 1);
  EXPECT_EQ(execute_on_cpu(store).outputs.at("host"), store.inputs.at("device"));
  OpCase<op::OffloadFetch<Tensor>> fetch{
      .name = "fetch", .op = {.device = store.op.device, .host = store.op.host, .ticket = 3}, .inputs = {}};
  fill_at_random(fetch, 2);
  EXPECT_EQ(execute_on_cpu(fetch).outputs.at("device"), fetch.inputs.at("host"));
}

}  // namespace
}  // namespace litespark::test
