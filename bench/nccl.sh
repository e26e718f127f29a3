#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/nccl.sh BUILD_DIR [RANKS]: with test_dist_nccl and bench_nccl built before, runs the tests of the NCCL communicator that
# this machine's GPUs allow, then the bench of collectives on RANKS of them (default: all), and prints both. Logs and JSON go to
# $OUT. Under two minutes.
build=${1:-build/cuda-only}
out=${OUT:-$build/results}
mkdir -p "$out"
nccl=$(python3 -c 'import nvidia.nccl,os;print(list(nvidia.nccl.__path__)[0])' 2>/dev/null)
export LD_LIBRARY_PATH=/usr/local/cuda/lib64:/usr/local/cuda/lib:$nccl/lib:$LD_LIBRARY_PATH
nvidia-smi --query-gpu=name,driver_version,clocks.sm,memory.used --format=csv,noheader
gpus=$(nvidia-smi --list-gpus | wc -l)
timeout 240 "$build"/tests/dist/nccl/test_dist_nccl >"$out/nccl_test.log" 2>&1; echo "tests: exit $?"
grep -E '^\[  (FAILED|PASSED|SKIPPED)|Failure|^\[==|^  Actual|throws|error' "$out/nccl_test.log" | sort | uniq -c | sort -rn | head -40
timeout 200 "$build"/bench/bench_nccl "${2:-$gpus}" "$out/nccl_collectives_${2:-$gpus}.json" >"$out/nccl_bench.log" 2>&1
echo "bench: exit $?"
tail -80 "$out/nccl_bench.log" | cut -c1-130
