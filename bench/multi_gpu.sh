#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/multi_gpu.sh [STAGE ...]: everything that is to be shown on a machine with several NVIDIA GPUs. Stages, in this order
# when none is named (train, ddp and plan belong into one call and take about six minutes on two GPUs, the rest about seven):
#   train    3B: one GPU, all GPUs sharing the optimizer, sharing a replica; from four on also sums in two levels, as between
#            two hosts; in BF16 and with 8-bit matmuls; where time goes
#   strong   the same at a batch of TOKENS tokens (524,288) whatever the number of GPUs
#   ddp      PyTorch DDP on the same model
#   plan     what `litespark plan` says of the same runs
#   test     the NCCL communicator, and every layout of two GPUs against one
#   faults   a rank that is killed, and one that hangs, under `litespark train --gpus`
#   nccl     collectives through our communicator against a plain NCCL loop
# BUILD names a folder in which litespark, test_dist_nccl, test_gpu_layouts, bench_nccl and bench_cuda_ranks were built; GPUS
# how many to use (default: all), CONFIG, SETTINGS (--section.key=value ...), STEPS and CASES (bench/cuda_ranks.cpp) what to
# train. Logs go to $OUT. Never touches the cards' settings.
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build/cuda-only}
out=${OUT:-$build/results}
gpus=${GPUS:-$(nvidia-smi --list-gpus | wc -l)}
config=${CONFIG:-configs/llama-3.2-3b.toml}
settings=${SETTINGS:-}
steps=${STEPS:-10}
# 1, 2, 4 ... GPUs that share the optimizer, and all of them in replicas of 2, 4 ...
tokens=${TOKENS:-524288}
micro_batch=$((4 * 4096))  # tokens of one, as CONFIG has it
shared=1 replicas='' strong=1a$((tokens / micro_batch))
for ((n = 2; n <= gpus; n *= 2)); do shared+=,$n replicas+=,${gpus}t$n strong+=,${n}a$((tokens / micro_batch / n)); done
levels=
[ "$gpus" -ge 4 ] && levels=,${gpus}h$((gpus / 2))
cases=${CASES:-$shared$levels$replicas}
mkdir -p "$out"
nccl=$(python3 -c 'import nvidia.nccl,os;print(list(nvidia.nccl.__path__)[0])' 2>/dev/null)
cudnn=$(python3 -c 'import nvidia.cudnn; print(list(nvidia.cudnn.__path__)[0])' 2>/dev/null)
export LD_LIBRARY_PATH=/usr/local/cuda/lib64:/usr/local/cuda/lib:$nccl/lib:$cudnn/lib:$LD_LIBRARY_PATH
export NCCL_NVLS_ENABLE=0
program=$build/cli/litespark

# fault SIGNAL LIMIT: sends it to a rank of a small run once that trains; the job must end by itself with exit 7 within LIMIT.
fault() {
  local log=$out/fault_$1.log run status begin
  run=$(mktemp -d)
  "$program" train configs/llama-160m.toml --gpus="$gpus" --train.steps=100000 --data.seq_len=1024 --train.micro_batch=4 \
    --train.log_every=1 --distribution.timeout_seconds=20 --out="$run/run" --checkpoint.at_end=false >"$log" 2>&1 &
  local job=$!
  for _ in $(seq 300); do grep -q 'step *20\b\|^ *20 ' "$log" && break; kill -0 $job 2>/dev/null || break; sleep 0.2; done
  local victim
  victim=$(pgrep -P $job | tail -1)
  begin=$SECONDS
  kill "-$1" "$victim"
  for _ in $(seq $(($2 * 5))); do kill -0 $job 2>/dev/null || break; sleep 0.2; done
  if kill -0 $job 2>/dev/null; then
    echo "SIG$1 of rank process $victim: the job still runs after $2 s"
    pkill -KILL -P $job
    kill -KILL $job
  fi
  wait $job
  status=$?
  printf 'SIG%s of one rank: exit %d after %d s (7 is expected)\n' "$1" $status $((SECONDS - begin))
  kill -KILL "$victim" 2>/dev/null
  tail -4 "$log" | cut -c1-300
  rm -rf "$run"
  [ $status -eq 7 ]
}

for stage in ${*:-train ddp plan strong test faults nccl}; do
  begin=$SECONDS
  echo "== $stage"
  case $stage in
    test)
      for binary in tests/dist/nccl/test_dist_nccl tests/train/nccl/test_gpu_layouts; do
        log=$out/$(basename $binary).log
        timeout 300 "$build/$binary" >"$log" 2>&1
        status=$?  # before anything else runs
        echo "$(basename $binary): exit $status (124: did not end)"
        grep -E '^\[  (FAILED|PASSED|SKIPPED)|Failure|^\[==|^  Actual|throws|error' "$log" | sort | uniq -c | sort -rn | head -30
      done
      ;;
    faults) fault KILL 30; fault STOP 60 ;;
    nccl)
      timeout 200 "$build/bench/bench_nccl" "$gpus" "$out/nccl.json" >"$out/nccl.log" 2>&1; echo "bench_nccl: exit $?"
      tail -80 "$out/nccl.log" | cut -c1-140
      ;;
    train)
      # shellcheck disable=SC2086
      nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw,memory.used --format=csv,noheader
      timeout 300 "$build/bench/bench_cuda_ranks" "$config" "$steps" "$cases" $settings 2>&1 | tee "$out/ranks.log"
      timeout 300 "$build/bench/bench_cuda_ranks" "$config" "$steps" "$shared" --precision.matmul=fp8 $settings 2>&1 | tee "$out/ranks_fp8.log"
      ;;
    strong)
      # shellcheck disable=SC2086
      timeout 400 "$build/bench/bench_cuda_ranks" "$config" 2 "$strong" $settings 2>&1 | tee "$out/strong.log"
      ;;
    ddp)
      (cd bench && timeout 200 torchrun --nproc_per_node="$gpus" peer_pytorch_ddp.py 3b:2:autocast 3b:4:bf16) \
        2>"$out/ddp.err" | tee "$out/ddp.json"
      ;;
    plan)
      for options in "" "--cluster.tp=$gpus" "--precision.matmul=fp8"; do
        # shellcheck disable=SC2086
        "$program" plan "$config" --gpus="$gpus" --hardware=h200 $options 2>&1 | tee -a "$out/plan.log" | head -60
      done
      ;;
    *) echo "unknown stage $stage; stages are train strong ddp plan test faults nccl"; exit 2 ;;
  esac
  echo "-- $stage: $((SECONDS - begin)) s"
done
