#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/gpu.sh [STAGE ...]: on a machine with an NVIDIA GPU, CUDA 13, CMake, ninja and GoogleTest, builds the CUDA
# backend with its tests and benches, runs them, and prints a short table last. Stages: build test bench sanitize
# (default: all, in this order). Logs and JSON go to $OUT, or build/gpu/results. Never touches the card's settings.
cd "$(dirname "$0")/.." || exit 1
out=${OUT:-build/gpu/results}
jobs=${JOBS:-$(nproc)}
build=build/gpu
mkdir -p "$out"
stages=${*:-build test bench sanitize}
export PATH=$PATH:/usr/local/cuda/bin
summary=""
failed=0

# stage NAME COMMAND...: runs it with its output in $out/NAME.log and remembers how it ended and how long it took.
stage() {
  local name=$1 start=$SECONDS status
  shift
  "$@" >"$out/$name.log" 2>&1
  status=$?
  if [ $status -eq 0 ]; then status=ok; else status="FAILED ($status)"; failed=1; fi
  summary+=$(printf '%-22s %-14s %5d s' "$name" "$status" $((SECONDS - start)))$'\n'
  [ "$status" = ok ]
}

build() {
  # The warnings of other compilers than ours are no reason to stop here.
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DLITESPARK_CUDA=ON -DLITESPARK_CPU_BACKEND=OFF \
    -DLITESPARK_OPS_ONLY=ON -DLITESPARK_BENCH=ON -DLITESPARK_WERROR=OFF ${GPU_CMAKE_ARGS:-} &&
    cmake --build $build -j "$jobs"
}

machine() {
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu,memory.used --format=csv
  nvcc --version | tail -2
  cmake --version | head -1
  nproc
}

stage machine machine
for name in $stages; do
  case $name in
    build) stage build build || { tail -40 "$out/build.log"; printf '%s' "$summary"; exit 1; } ;;
    test) stage test $build/tests/test_ops_cuda --gtest_brief=1 ;;
    bench)
      stage bench_ops $build/bench/bench_cuda_ops "$out/ops.json"
      if [ -x $build/bench/bench_cuda_matmul_attention ]; then
        stage bench_matmul $build/bench/bench_cuda_matmul_attention ${MATMUL_BENCH:-all} --json="$out/matmul_attention.json"
      fi
      ;;
    sanitize) OUT=$out stage sanitize tools/gpu_sanitize.sh $build ;;
    *) echo "unknown stage $name; stages are build test bench sanitize"; exit 2 ;;
  esac
done

[ -f "$out/bench_matmul.log" ] && cat "$out/bench_matmul.log"
[ -f "$out/bench_ops.log" ] && cat "$out/bench_ops.log"
[ -f "$out/test.log" ] && grep -E '^\[  (FAILED|PASSED)|Failure|^\[==' "$out/test.log" | head -40
[ -f "$out/sanitize.log" ] && cat "$out/sanitize.log"
cat "$out/machine.log"
printf '\n%s' "$summary"
exit $failed
