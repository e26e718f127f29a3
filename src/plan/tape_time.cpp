// SPDX-License-Identifier: Apache-2.0
#include "plan/tape_time.h"

#include <algorithm>
#include <deque>
#include <map>
#include <variant>

#include "core/checked.h"
#include "plan/attention_time.h"
#include "plan/collective_time.h"
#include "plan/layer_time.h"
#include "plan/software.h"
#include "plan/tape_cost.h"

namespace litespark {
namespace {

Hardware hardware_in(DType compute, const Hardware& hardware, double matmul_share) {
  const KernelShares kernels = litespark_software().kernels;
  Hardware own = between_matmuls(with_kernels(hardware, kernels), kernels, matmul_share);
  // Half as many 32-bit numbers fit a vector or a matrix unit.
  if (compute == DType::kF32) own.bf16_tflops /= 2;
  return own;
}

/// However fast a call is, ops beside it go on.
constexpr double kMostDrag = 0.9;

/// Times that a tape is walked over in a row. Calls under way at the start of a pass come from the one before, so that
/// from the second or third on all passes take the same.
constexpr int64_t kMostPasses = 8;

/// Walks over the tapes of a step with two clocks: the ops', and the communicator's.
class TapeClock {
 public:
  /// `matmul_share`: of the step's time.
  TapeClock(const Program& program, const Hardware& hardware, double matmul_share)
      : program_(program),
        hardware_(hardware_in(program.options.compute, hardware, matmul_share)),
        data_(strided_group(program.options.data_ranks, program.options.tensor_ranks, hardware)),
        tensor_(strided_group(program.options.tensor_ranks, 1, hardware)),
        context_(strided_group(program.options.context_ranks, program.options.tensor_ranks, hardware)),
        world_(strided_group(program.options.world_ranks(), 1, hardware)) {}

  void run(Phase phase, int64_t times = 1) {
    const Tape* const tape = program_.tape(phase);
    if (tape == nullptr) return;
    const bool is_update = phase == Phase::kOptimizer || phase == Phase::kSynchronise || phase == Phase::kPack;
    StepSeconds before;
    double start = 0;
    const int64_t passes = std::min(times, kMostPasses);
    for (int64_t i = 0; i < passes; ++i) {
      before = step_;
      start = now_;
      for (const TapeEntry& entry : tape->entries()) run_op(entry.op, is_update);
    }
    if (times > passes) repeat_pass(static_cast<double>(times - passes), before, start);
  }

  /// Whatever is under way ends with the step.
  StepSeconds end() {
    wait_until(communicator_free_, step_.gradients);
    step_.total = now_;
    return step_;
  }

 private:
  /// The last pass `times` more, which began at `start` when the parts were `before`.
  void repeat_pass(double times, const StepSeconds& before, double start) {
    for (double StepSeconds::*part :
         {&StepSeconds::matmul, &StepSeconds::attention, &StepSeconds::pointwise, &StepSeconds::tensor,
          &StepSeconds::context, &StepSeconds::gradients, &StepSeconds::optimizer}) {
      step_.*part += times * (step_.*part - before.*part);
    }
    const double later = times * (now_ - start);
    now_ += later;
    communicator_free_ += later;
    for (auto& [number, call] : calls_) call.delay(later);
    for (Call& call : under_way_) call.delay(later);
  }

  void run_op(const op::AnyOp<TensorId>& any, bool is_update) {
    if (const auto* scatter = std::get_if<op::ReduceScatter<TensorId>>(&any)) {
      start_call(Collective::kReduceScatter, *scatter);
    } else if (const auto* gather = std::get_if<op::AllGather<TensorId>>(&any)) {
      start_call(Collective::kAllGather, *gather);
    } else if (const auto* sum = std::get_if<op::AllReduce<TensorId>>(&any)) {
      start_call(Collective::kAllReduce, *sum);
    } else if (const auto* hop = std::get_if<op::PassOn<TensorId>>(&any)) {
      start_hop(*hop);
    } else if (const auto* pieces = std::get_if<op::AllToAll<TensorId>>(&any)) {
      start_call(Collective::kAllToAll, *pieces);
    } else if (const auto* wait = std::get_if<op::CommWait<TensorId>>(&any)) {
      const Call& call = calls_[wait->call];
      wait_until(call.end, cause_of(call.group));
    } else {
      compute(op_work(any, program_.tensors), is_update);
    }
  }

  template <class Op>
  void start_call(Collective kind, const Op& op) {
    const auto bytes = static_cast<double>(program_.tensors[op.data].bytes());
    const Group& group = group_of(op.group);
    const double seconds = collective_seconds(kind, bytes, group, hardware_);
    if (seconds == 0) return;
    begin(op.call, op.group, seconds, contention_seconds(kind, bytes, static_cast<double>(group.ranks), hardware_));
  }

  /// Each rank sends and receives what it does in a gather of two.
  void start_hop(const op::PassOn<TensorId>& op) {
    const auto bytes = static_cast<double>(program_.tensors[op.sent].bytes());
    begin(op.call, op::CommGroup::kContext, hop_seconds(bytes, context_, hardware_),
          contention_seconds(Collective::kAllGather, 2 * bytes, 2, hardware_));
  }

  void begin(int call, op::CommGroup group, double seconds, double lost) {
    const double start = std::max(communicator_free_, now_);
    communicator_free_ = start + seconds;
    calls_[call] = {
        .start = start, .end = communicator_free_, .drag = std::min(kMostDrag, lost / seconds), .group = group};
    under_way_.push_back(calls_[call]);
  }

  const Group& group_of(op::CommGroup group) const {
    if (group == op::CommGroup::kTensor) return tensor_;
    return group == op::CommGroup::kData ? data_ : world_;
  }

  double& cause_of(op::CommGroup group) {
    if (group == op::CommGroup::kContext) return step_.context;
    return group == op::CommGroup::kTensor ? step_.tensor : step_.gradients;
  }

  /// Work of `seconds` if it were alone. Calls run one after another; of the time that one is under way, ops lose
  /// `drag`.
  void pass(double seconds) {
    while (!under_way_.empty()) {
      const Call& call = under_way_.front();
      const double alone = std::clamp(call.start - now_, 0.0, seconds);
      now_ += alone;
      seconds -= alone;
      const double left = std::max(0.0, call.end - std::max(now_, call.start));
      const double beside = std::min(seconds / (1 - call.drag), left);
      now_ += beside;
      cause_of(call.group) += call.drag * beside;
      seconds -= (1 - call.drag) * beside;
      if (beside < left) return;
      under_way_.pop_front();
    }
    now_ += seconds;
  }

  void wait_until(double end, double& cause) {
    if (end <= now_) return;
    cause += end - now_;
    now_ = end;
  }

  void compute(const OpWork& work, bool is_update) {
    const double traffic = work.bytes / hardware_.memory_rate() + 1e-6 * hardware_.op_overhead_us;
    double seconds = traffic;
    double* to = is_update ? &step_.optimizer : &step_.pointwise;
    if (work.inner > 0) {
      // Sums of 32 bits are part of the op's traffic, which matmul_seconds does not see.
      const OperandPrecision precision = work.is_fp8 ? OperandPrecision::kFP8 : OperandPrecision::kBF16;
      seconds = std::max(traffic, matmul_seconds(work.rows, work.columns, work.inner, hardware_, precision));
      to = &step_.matmul;
    } else if (work.attention_flops > 0) {
      const double rate = attention_rate(hardware_, AttentionKernel::kLitespark,
                                         {.length = work.attention_length,
                                          .width = work.attention_width,
                                          .group = work.attention_group,
                                          .is_backward = work.is_attention_backward});
      seconds = std::max(traffic, work.attention_flops / rate);
      to = &step_.attention;
    }
    seconds /= work.rate_share;
    *to += seconds;
    pass(seconds);
  }

  const Program& program_;
  Hardware hardware_;
  Group data_, tensor_, context_, world_;
  StepSeconds step_;
  double now_ = 0;
  double communicator_free_ = 0;
  struct Call {
    double start = 0;
    double end = 0;
    double drag = 0;  ///< share of its time that ops beside it lose
    op::CommGroup group = op::CommGroup::kData;

    void delay(double seconds) {
      start += seconds;
      end += seconds;
    }
  };
  std::map<int, Call> calls_;
  std::deque<Call> under_way_;
};

}  // namespace

namespace {

StepSeconds play_step(const Program& program, int64_t accumulation, const Hardware& hardware, bool synchronises,
                      double matmul_share) {
  TapeClock clock(program, hardware, matmul_share);
  clock.run(Phase::kTrainFirst);
  const bool has_last = program.tape(Phase::kTrainLast) != nullptr && accumulation > 1;
  if (accumulation > 1) clock.run(Phase::kTrainNext, accumulation - (has_last ? 2 : 1));
  if (has_last) clock.run(Phase::kTrainLast);
  clock.run(Phase::kOptimizer);
  if (synchronises) clock.run(Phase::kSynchronise);
  clock.run(Phase::kPack);
  return clock.end();
}

}  // namespace

StepSeconds program_seconds(const Program& program, int64_t accumulation, const Hardware& hardware) {
  hardware.validate();
  const StepSeconds first = play_step(program, accumulation, hardware, false, 0);
  const double matmul_share = first.matmul / first.total;
  StepSeconds mean = play_step(program, accumulation, hardware, false, matmul_share);
  if (program.tape(Phase::kSynchronise) == nullptr) return mean;
  const StepSeconds longer = play_step(program, accumulation, hardware, true, matmul_share);
  const double share = 1 / real(program.options.sync_small_every);
  for (double StepSeconds::*part : {&StepSeconds::total, &StepSeconds::gradients, &StepSeconds::optimizer}) {
    mean.*part += share * (longer.*part - mean.*part);
  }
  return mean;
}

}  // namespace litespark
