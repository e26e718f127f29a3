#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/gpu_trial.sh BUILD_DIR: with binaries built before, runs the gpu tests, the golden cases in fp32 and bf16, a short training
# run and the kernel benches; prints a short table last. Logs go to $OUT.
build=${1:-build/cuda-only}
out=${OUT:-$build/results}
mkdir -p "$out"
cudnn=$(python3 -c 'import nvidia.cudnn,os;print(list(nvidia.cudnn.__path__)[0])' 2>/dev/null)
export LD_LIBRARY_PATH=/usr/local/cuda/lib64:$cudnn/lib:$LD_LIBRARY_PATH
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw,memory.used --format=csv,noheader
timeout 200 "$build"/tests/test_ops_cuda --gtest_brief=1 >"$out/test.log" 2>&1; echo "gpu tests: exit $?"
grep -E '^\[  (FAILED|PASSED)|^\[==' "$out/test.log" | tail -15
for case in tests/golden/*/; do
  [ -f "$case/case.json" ] || continue
  for compute in fp32 bf16; do
    log=$out/verify_$(basename "$case")_$compute.log
    timeout 60 "$build"/cli/litespark verify "$case" --compute $compute --device cuda >"$log" 2>&1; status=$?
    echo "verify $(basename "$case") $compute: exit $status, $(tail -1 "$log" | cut -c1-150)"
  done
done
timeout 100 "$build"/cli/litespark train configs/llama-160m.toml --train.steps=12 --out=build/trial_run >"$out/train.log" 2>&1
echo "train 160m: exit $?"; tail -6 "$out/train.log" | cut -c1-200
timeout 120 "$build"/bench/bench_cuda_ops "$out/ops.json" >"$out/bench_ops.log" 2>&1; echo "bench ops: exit $?"
timeout 150 "$build"/bench/bench_cuda_matmul_attention >"$out/bench_matmul.log" 2>&1; echo "bench matmul: exit $?"
tail -60 "$out/bench_ops.log" | cut -c1-140
tail -70 "$out/bench_matmul.log" | cut -c1-160
