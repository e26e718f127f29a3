#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/gpu_memory.sh LITESPARK [OUT.txt]: the memory of runs on one GPU. For each case the planned total, what stands
# beside the plan (predicted and measured, with the moments), allocations and flatness of the steady state, the cost of
# observing. 2,000 steps of the 160M model, 100 of the 3B, 20 of the others; about six minutes on an H200.
program=${1:-build/cuda-only/cli/litespark}
result=${2:-/dev/stdout}
run=build/gpu_memory_run

# case NAME CONFIG STEPS [OVERRIDE...]
case_of() {
  local name=$1 config=$2 steps=$3 status
  shift 3
  rm -rf $run
  "$program" train "configs/$config.toml" --train.steps="$steps" --train.log_every=1000000 --schedule.warmup=0 \
    --checkpoint.at_end=false --out=$run "$@" >"$run.log" 2>&1
  status=$?
  echo "== $name: train configs/$config.toml --train.steps=$steps $* (exit $status)"
  grep -E '^ *(total |beyond the plan)|^memory|^warning' "$run.log"
  grep -o '"observing": {[^}]*}' $run/timeline.json
}

{
  date -u +%Y-%m-%d
  nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used,memory.reserved --format=csv,noheader
  case_of 160m llama-160m 2000 --train.micro_batch=16 --data.seq_len=2048
  case_of 1.6b llama-1.6b 20 --train.micro_batch=8 --data.seq_len=1024
  case_of 1b llama-3.2-1b 20 --train.micro_batch=4 --data.seq_len=4096
  case_of 3b llama-3.2-3b 100 --train.micro_batch=4 --data.seq_len=4096
  case_of "3b, free order" llama-3.2-3b 20 --train.micro_batch=4 --data.seq_len=4096 --deterministic=false
  case_of "160m, fp32" llama-160m 20 --train.micro_batch=2 --data.seq_len=2048 --precision.compute=fp32
} >"$result"
