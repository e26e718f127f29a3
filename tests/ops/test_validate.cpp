// SPDX-License-Identifier: Apache-2.0
// Every op: a correct one passes without data, and each tensor that is missing, of another dtype, shape or device is
// refused by a message that names the op and the tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "core/error.h"
#include "ops/backend.h"
#include "support/op_case.h"

namespace litespark::test {
namespace {

constexpr int kTokens = 6, kHeads = 4, kKvHeads = 2, kDim = 8, kQkv = (kHeads + 2 * kKvHeads) * kDim;

Tensor f32(Shape shape) {
  return shape_only(DType::kF32, shape);
}
Tensor half(Shape shape) {
  return shape_only(DType::kBF16, shape);
}
Tensor u16(Shape shape) {
  return shape_only(DType::kU16, shape);
}
Tensor i32(Shape shape) {
  return shape_only(DType::kI32, shape);
}
Tensor bytes(int64_t size) {
  return shape_only(DType::kU8, {size});
}

struct ValidOp {
  op::AnyOp<Tensor> op;
  std::vector<std::string> optional = {};   ///< may be missing
  std::vector<std::string> any_shape = {};  ///< opaque or scratch
};

op::AttentionShape attention_shape() {
  return {
      .num_heads = kHeads, .num_kv_heads = kKvHeads, .head_dim = kDim, .scale = 1, .max_documents = 3, .max_length = 4};
}

std::vector<ValidOp> norm_and_embedding_ops() {
  return {
      {op::EmbeddingForward<Tensor>{half({6, 5}), f32({9, 5}), {}, i32({6}), state_shape()}, {}, {}},
      {op::EmbeddingForward<Tensor>{half({6, 5}), half({9, 5}), u16({9, 5}), i32({6}), state_shape()},
       {"remainder"},
       {}},
      {op::EmbeddingBackward<Tensor>{f32({9, 5}), half({6, 5}), i32({6}), i32({22})}, {}, {"scratch"}},
      {op::RmsNormForward<Tensor>{half({6, 5}), f32({6}), f32({6, 5}), f32({6, 5}), half({6, 5}), f32({5}), f32({1})},
       {"abs_max"},
       {}},
      {op::RmsNormBackward<Tensor>{f32({6, 5}), half({6, 5}), f32({5}), half({6, 5}), f32({6, 5}), f32({6}), f32({5}),
                                   f32({1, 5}), f32({1})},
       {"dresidual_cast", "abs_max"},
       {"partials"}},
      {op::HeadNormForward<Tensor>{half({kTokens, kQkv}), f32({kTokens, 6}), half({kTokens, kQkv}), f32({kDim}),
                                   f32({kDim}), kHeads, kKvHeads, kDim}},
      {op::HeadNormBackward<Tensor>{half({kTokens, kQkv}), f32({kDim}), f32({kDim}), half({kTokens, kQkv}),
                                    f32({kTokens, 6}), f32({kDim}), f32({kDim}), f32({1, 2 * kDim}), kHeads, kKvHeads,
                                    kDim},
       {},
       {"partials"}},
      {op::SwiGluForward<Tensor>{half({6, 5}), half({6, 10}), f32({1})}, {"abs_max"}, {}},
      {op::SwiGluBackward<Tensor>{half({6, 10}), half({6, 5}), half({6, 10}), f32({1})}, {"abs_max"}, {}},
      {op::GatedForward<Tensor>{half({6, 10}), half({6, 5}), half({6, 3}), half({10, 3}), bytes(9)},
       {"scratch"},
       {"scratch"}},
      {op::GatedBackward<Tensor>{half({6, 10}), half({6, 10}), half({6, 3}), half({3, 5}), bytes(256)},
       {},
       {"scratch"}},
  };
}

std::vector<ValidOp> matmul_and_attention_ops() {
  const Tensor qkv = half({kTokens, kQkv});
  const Tensor out = half({kTokens, kHeads * kDim});
  return {
      {op::MatmulForward<Tensor>{half({6, 5}), half({6, 3}), half({5, 3}), {}, f32({5}), bytes(9), 3, 5},
       {"bias", "scratch"},
       {"scratch"}},
      {op::MatmulBackwardInput<Tensor>{half({6, 3}), half({6, 5}), {}, bytes(9), bytes(9), 3, 5},
       {"scratch"},
       {"scratch", "packed"}},
      {op::MatmulBackwardWeight<Tensor>{f32({5, 3}), half({6, 5}), half({6, 3}), bytes(9)}, {"scratch"}, {"scratch"}},
      {op::BiasBackward<Tensor>{f32({5}), half({6, 5}), f32({1, 5})}, {}, {"partials"}},
      {op::PackWeight<Tensor>{bytes(100), f32({5, 3})}, {}, {"packed", "weight"}},
      {op::PackWeight<Tensor>{bytes(100), half({5, 3}), u16({5, 3}), f32({5, 3})},
       {"remainder"},
       {"packed", "weight", "scratch"}},
      {op::Rope<Tensor>{qkv, f32({10, kDim}), i32({kTokens}), f32({1}), 6, 8, kDim}, {"abs_max"}, {}},
      {op::AttentionForward<Tensor>{
           out, f32({kHeads, kTokens}), qkv, i32({4}), i32({1}), bytes(9), f32({1}), {}, {}, {}, attention_shape()},
       {"scratch", "abs_max"},
       {"scratch"}},
      {op::AttentionForward<Tensor>{out, f32({kHeads, kTokens}), qkv, i32({4}), i32({1}), bytes(9), f32({1}),
                                    f32({10, kDim}), i32({kTokens}), qkv, attention_shape()},
       {"scratch", "abs_max"},
       {"scratch"}},
      {op::AttentionBackward<Tensor>{qkv, out, qkv, out, f32({kHeads, kTokens}), i32({4}), i32({1}), bytes(9),
                                     f32({10, kDim}), i32({kTokens}), f32({1}), attention_shape()},
       {"scratch", "abs_max"},
       {"scratch"}},
      {op::AttentionPartForward<Tensor>{f32({kTokens, kHeads * kDim}), f32({kHeads, kTokens}), qkv,
                                        half({kTokens, 2 * kKvHeads * kDim}), i32({4}), i32({1}), bytes(9),
                                        attention_shape(), op::ContextPart{.ranks = 2}},
       {"scratch"},
       {"scratch"}},
      {op::AttentionPartBackward<Tensor>{f32({kTokens, kHeads * kDim}), f32({kTokens, 2 * kKvHeads * kDim}), out, qkv,
                                         half({kTokens, 2 * kKvHeads * kDim}), out, f32({kHeads, kTokens}), i32({4}),
                                         i32({1}), bytes(9), attention_shape(), op::ContextPart{.ranks = 2}},
       {"scratch"},
       {"scratch"}},
      {op::TakeColumns<Tensor>{half({6, 3}), half({6, 5}), 1}, {}, {"x"}},
      {op::JoinColumns<Tensor>{half({6, 8}), f32({6, 5}), f32({6, 3})}},
      {op::AttentionCached<Tensor>{out, half({2, 10, 2 * kKvHeads * kDim}), qkv, i32({2}), attention_shape(), 2, 10}},
  };
}

std::vector<ValidOp> loss_and_optimizer_ops() {
  const Tensor flat = f32({20});
  return {
      {op::CrossEntropy<Tensor>{f32({6}), f32({6}), half({6, 9}), i32({6}), state_shape()}, {"log_sum_exp"}, {}},
      {op::CrossEntropyPart<Tensor>{f32({6, op::kRowStatistics}), half({6, 9}), i32({6}), 9, 8}, {}, {}},
      {op::CrossEntropyJoined<Tensor>{f32({6}), f32({6}), half({6, 9}), i32({6}), f32({3, 6, op::kRowStatistics}),
                                      state_shape(), 3, 9, 8, 20},
       {"log_sum_exp"},
       {}},
      {op::LossReduce<Tensor>{state_shape(), f32({6}), f32({6}), i32({6})}, {"log_sum_exp"}, {}},
      {op::GradientSquareSum<Tensor>{state_shape(), flat, shape_only(DType::kF64, {1})}, {}, {"partials", "gradient"}},
      {op::StepDecision<Tensor>{state_shape()}},
      {op::AdamW<Tensor>{flat, flat, flat, half({20}), {}, flat, state_shape(), f32({1})},
       {"master", "weight", "abs_max"},
       {}},
      {op::AdamW<Tensor>{{}, half({20}), half({20}), half({20}), u16({20}), half({20}), state_shape(), f32({1})},
       {"remainder", "abs_max"},
       {}},
      {op::MeanOfCopies<Tensor>{flat, flat, state_shape(), shape_only(DType::kF64, {2}), 3},
       {},
       {"copy", "sum", "partials"}},
      {op::Convert<Tensor>{half({20}), flat}},
      {op::Add<Tensor>{flat, half({20})}},
      {op::OffloadStore<Tensor>{half({6, 5}), half({6, 5})}},
      {op::OffloadFetch<Tensor>{half({6, 5}), half({6, 5})}},
      {op::OffloadWait<Tensor>{half({6, 5})}, {}, {"device"}},
      {op::Checksum<Tensor>{shape_only(DType::kI64, {1}), flat}, {}, {"x"}},
  };
}

std::vector<ValidOp> ops_of_ranks() {
  const auto f64 = [](Shape shape) { return shape_only(DType::kF64, shape); };
  return {
      {op::PutStepSums<Tensor>{f64({op::kNumStepSums}), state_shape()}},
      {op::TakeStepSums<Tensor>{state_shape(), f64({3, op::kNumStepSums})}},
      {op::AllReduce<Tensor>{half({20})}, {}, {"data"}},
      {op::ReduceScatter<Tensor>{half({20}), half({60}), 3}},
      {op::AllGather<Tensor>{u16({60}), u16({20}), 3}},
      {op::AllToAll<Tensor>{u16({60}), u16({60}), 3}},
      {op::CompressGradient<Tensor>{u16({60}), f32({60}), f32({60}), 3, Compression::kBF16}, {"residual"}, {}},
      {op::CompressGradient<Tensor>{u16({63}), {}, f32({60}), 3, Compression::kFP16}},
      {op::SumMessages<Tensor>{f32({20}), u16({63}), 3, Compression::kFP16}},
      {op::DropResidual<Tensor>{f32({20}), state_shape()}, {}, {"residual"}},
      {op::Send<Tensor>{half({6, 5})}, {}, {"sent"}},
      {op::Receive<Tensor>{half({6, 5})}, {}, {"received"}},
      {op::PassOn<Tensor>{half({6, 5}), half({6, 5})}},
      {op::CommWait<Tensor>{f64({20}), f64({20})}, {"source"}, {"tensor", "source"}},
  };
}

std::vector<ValidOp> fp8_ops() {
  const auto e4m3 = [](Shape shape) { return shape_only(DType::kE4M3, shape); };
  return {
      {op::Clear<Tensor>{f32({9}), state_shape()}, {"state"}, {"x"}},
      {op::AbsMax<Tensor>{f32({6}), f32({5}), half({6, 5})}, {"abs_max", "column_abs_max"}, {}},
      {op::QuantizeFp8<Tensor>{e4m3({6, 5}), e4m3({5, 6}), f32({1}), {}, half({6, 5}), f32({1}), {}, state_shape()},
       {"q", "q_transposed", "state"},
       {}},
      {op::QuantizeFp8<Tensor>{e4m3({6, 5}), e4m3({5, 6}), f32({6}), f32({5}), half({6, 5}), f32({6}), f32({5}),
                               state_shape()},
       {"q", "q_transposed", "state"},
       {}},
      {op::ScaledMatmul<Tensor>{half({6, 32}), e4m3({6, 16}), e4m3({32, 16}), f32({1}), f32({1}), f32({32}), bytes(9)},
       {"bias", "scratch"},
       {"scratch"}},
      {op::QuantizeQkv<Tensor>{e4m3({kTokens, (kHeads + kKvHeads) * kDim}), e4m3({kKvHeads * kDim, 16}), f32({1}),
                               half({kTokens, kQkv}), f32({1}), state_shape(), kHeads, kKvHeads, kDim},
       {"state"},
       {}},
      {op::AttentionForwardFp8<Tensor>{half({kTokens, kHeads * kDim}), f32({kHeads, kTokens}),
                                       e4m3({kTokens, (kHeads + kKvHeads) * kDim}), e4m3({kKvHeads * kDim, 16}),
                                       f32({1}), i32({4}), i32({1}), f32({1}), attention_shape()},
       {"abs_max"},
       {}},
      {op::ScaledMatmul<Tensor>{f32({6, 32}), e4m3({6, 16}), e4m3({32, 16}), f32({6}), f32({32}), {}, {}}, {}, {}},
  };
}

std::vector<ValidOp> valid_ops() {
  std::vector<ValidOp> all;
  for (const auto& family :
       {norm_and_embedding_ops(), matmul_and_attention_ops(), loss_and_optimizer_ops(), ops_of_ranks(), fp8_ops()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

/// Changes one tensor of an op on its way through `map`.
struct Change {
  std::string_view name;
  std::function<Tensor(Tensor)> change;

  Tensor in(std::string_view tensor_name, const Tensor& t) const { return tensor_name == name ? change(t) : t; }
  Tensor out(std::string_view tensor_name, const Tensor& t) const { return in(tensor_name, t); }
  Tensor inout(std::string_view tensor_name, const Tensor& t) const { return in(tensor_name, t); }
};

struct ListNames {
  std::vector<std::string>& names;

  Tensor in(std::string_view name, const Tensor& t) const {
    if (t.has_value()) names.emplace_back(name);
    return t;
  }
  Tensor out(std::string_view name, const Tensor& t) const { return in(name, t); }
  Tensor inout(std::string_view name, const Tensor& t) const { return in(name, t); }
};

std::string message_of(const op::AnyOp<Tensor>& op) {
  try {
    validate(op);
  } catch (const InternalError& error) {
    return error.what();
  }
  return {};
}

std::string message_after(const ValidOp& valid, std::string_view name, std::function<Tensor(Tensor)> change) {
  return std::visit([&](const auto& op) { return message_of(op.map(Change{name, change})); }, valid.op);
}

std::string_view name_of(const op::AnyOp<Tensor>& op) {
  return std::visit([](const auto& concrete) { return concrete.kName; }, op);
}

/// Calls body(op, tensor name) for every tensor that is there.
void for_each_tensor(const std::function<void(const ValidOp&, const std::string&)>& body) {
  for (const ValidOp& valid : valid_ops()) {
    std::vector<std::string> names;
    std::visit([&](const auto& op) { static_cast<void>(op.map(ListNames{names})); }, valid.op);
    for (const std::string& name : names) body(valid, name);
  }
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(Validate, AcceptsEveryCorrectOpWithoutData) {
  std::set<size_t> kinds;
  for (const ValidOp& valid : valid_ops()) kinds.insert(valid.op.index());
  EXPECT_EQ(kinds.size(), std::variant_size_v<op::AnyOp<Tensor>>);
  for (const ValidOp& valid : valid_ops()) EXPECT_EQ(message_of(valid.op), "") << name_of(valid.op);
}

TEST(Validate, RefusesAMissingTensor) {
  for_each_tensor([](const ValidOp& valid, const std::string& name) {
    const std::string message = message_after(valid, name, [](Tensor) { return Tensor{}; });
    EXPECT_EQ(message.empty(), contains(valid.optional, name)) << name_of(valid.op) << " " << name << " " << message;
  });
}

TEST(Validate, RefusesAnotherDtypeAndNamesTheTensor) {
  for_each_tensor([](const ValidOp& valid, const std::string& name) {
    std::string wrong;
    const std::string message = message_after(valid, name, [&](Tensor t) {
      t.dtype = t.dtype == DType::kI32 ? DType::kU8 : DType::kI32;
      wrong = dtype_name(t.dtype);
      return t;
    });
    EXPECT_NE(message.find(name_of(valid.op)), std::string::npos) << name_of(valid.op) << " " << name;
    EXPECT_NE(message.find(name + " has the wrong dtype; got " + wrong), std::string::npos) << message;
  });
}

TEST(Validate, RefusesAnotherShapeAndPrintsShapes) {
  for_each_tensor([](const ValidOp& valid, const std::string& name) {
    if (contains(valid.any_shape, name)) return;
    const std::string message = message_after(valid, name, [](Tensor t) {
      t.shape = {t.rows() + 1, t.columns() + 1};
      return t;
    });
    EXPECT_NE(message.find("["), std::string::npos) << name_of(valid.op) << " " << name;
    EXPECT_NE(message.find("; got ["), std::string::npos) << name_of(valid.op) << " " << name << ": " << message;
  });
}

TEST(Validate, RefusesScratchThatIsTooSmall) {
  for (const auto& [op_name, tensor_name] :
       std::vector<std::pair<std::string, std::string>>{{"embedding_backward", "scratch"},
                                                        {"rms_norm_backward", "partials"},
                                                        {"head_norm_backward", "partials"},
                                                        {"bias_backward", "partials"}}) {
    for (const ValidOp& valid : valid_ops()) {
      if (name_of(valid.op) != op_name) continue;
      const std::string message = message_after(valid, tensor_name, [](Tensor t) {
        t.shape = {t.num_elements() - 1};
        return t;
      });
      EXPECT_NE(message.find(tensor_name + " is too small"), std::string::npos) << op_name << ": " << message;
    }
  }
}

TEST(Validate, RefusesTensorsOfTwoDevices) {
  for_each_tensor([](const ValidOp& valid, const std::string& name) {
    const std::string message = message_after(valid, name, [](Tensor t) {
      t.device = Device::kCuda;
      return t;
    });
    const std::set<std::string_view> of_one_tensor = {op::StepDecision<Tensor>::kName, op::OffloadWait<Tensor>::kName,
                                                      op::AllReduce<Tensor>::kName, op::Send<Tensor>::kName,
                                                      op::Receive<Tensor>::kName};
    const bool is_only_tensor = of_one_tensor.contains(name_of(valid.op));
    EXPECT_EQ(message.find("another device") == std::string::npos, is_only_tensor) << name_of(valid.op) << " " << name;
  });
}

TEST(Validate, RefusesScalarsThatContradict) {
  const op::Rope<Tensor> rope{half({6, 64}), f32({10, 8}), i32({6}), {}, 6, 8, 8};
  op::Rope<Tensor> odd = rope;
  odd.head_dim = 7;
  EXPECT_NE(message_of(odd).find("head_dim is odd"), std::string::npos);
  op::Rope<Tensor> many = rope;
  many.num_rotated_heads = 9;
  EXPECT_NE(message_of(many).find("num_rotated_heads"), std::string::npos);
  op::AttentionForward<Tensor> attention{
      half({6, 32}), f32({4, 6}), half({6, 64}), i32({4}), i32({1}), {}, {}, {}, {}, {}, attention_shape()};
  attention.shape.uniform = true;
  EXPECT_NE(message_of(attention).find("uniform"), std::string::npos);
  op::AttentionForwardFp8<Tensor> on_fp8{half({6, 32}),
                                         f32({4, 6}),
                                         shape_only(DType::kE4M3, {6, 48}),
                                         shape_only(DType::kE4M3, {16, 16}),
                                         f32({1}),
                                         i32({4}),
                                         i32({1}),
                                         {},
                                         attention_shape()};
  on_fp8.shape.has_alibi = true;
  EXPECT_NE(message_of(on_fp8).find("ALiBi"), std::string::npos);
  op::AttentionPartForward<Tensor> part{f32({6, 32}),
                                        f32({4, 6}),
                                        half({6, 64}),
                                        half({6, 32}),
                                        i32({4}),
                                        i32({1}),
                                        {},
                                        attention_shape(),
                                        {.ranks = 2, .key_rank = 2}};
  EXPECT_NE(message_of(part).find("key_rank"), std::string::npos);
  attention.shape.num_kv_heads = 3;
  EXPECT_NE(message_of(attention).find("divide"), std::string::npos);
  EXPECT_NE(message_of(op::StepDecision<Tensor>{.state = state_shape(), .beta1 = 1.0}).find("beta"), std::string::npos);
  const op::RmsNormForward<Tensor> half_sum{half({6, 5}), f32({6}), {}, f32({6, 5}), half({6, 5}), f32({5}), {}};
  EXPECT_NE(message_of(half_sum).find("together"), std::string::npos);
  const op::MatmulForward<Tensor> no_weight{half({6, 5}), half({6, 3}), {}, {}, {}, {}, 3, 5};
  EXPECT_NE(message_of(no_weight).find("neither weight nor packed"), std::string::npos);
}

}  // namespace
}  // namespace litespark::test
