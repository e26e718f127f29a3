#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds everything with warnings as errors, runs every test that this machine can run.
#   ./test.sh             all tests without a GPU
#   ./test.sh fast        the quick set only
#   ./test.sh --full      slow tests with their long loops, and the kernels for GPUs before Hopper
# The last line reads `N passed, N failed, N skipped`; the exit status is 0 only when nothing failed.
set -uo pipefail
cd "$(dirname "$0")"

labels="fast slow"
slow_scale=normal
for argument in "$@"; do
  case "$argument" in
    fast) labels=fast ;;
    --full) slow_scale=full ;;
    *) echo "usage: ./test.sh [fast] [--full]" >&2; exit 2 ;;
  esac
done

build=build/release
cores=$(nproc)
passed=0 failed=0 skipped=0

heading() { printf '\n== %s (%s)\n' "$1" "$(date -u +%H:%M:%S)"; }
finish() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ] && [ "$passed" != 0 ]
  exit
}
stop_on_failure() {
  heading "$1"
  shift
  "$@" || { failed=$((failed + 1)); finish; }
}
nccl_targets() { ninja -C build/cuda -t targets all | grep -oE '^(test_dist_nccl|test_gpu_layouts|bench_nccl|bench_cuda_ranks):' | tr -d :; }
find_nvcc() { command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null; }

stop_on_failure "packages" tools/install.sh test
stop_on_failure "configure" cmake --preset release -DLITESPARK_TESTS=ON
stop_on_failure "build" cmake --build "$build" -j "$cores"

if [ "$labels" != fast ]; then
  if nvcc=$(find_nvcc); then
    heading "CUDA code: compile"
    if cmake --preset cuda -DLITESPARK_TESTS=ON -DLITESPARK_BENCH=ON -DCMAKE_CUDA_COMPILER="$nvcc" &&
      cmake --build build/cuda -j "$cores" --target litespark test_ops_cuda bench_cuda_ops bench_cuda_matmul_attention bench_cuda_gated \
        $(nccl_targets); then
      passed=$((passed + 1))
    else
      failed=$((failed + 1))
    fi
    if [ "$slow_scale" = full ]; then
      heading "CUDA code: compile for GPUs before Hopper"
      if cmake --preset cuda -B build/cuda-sm80 -DLITESPARK_CUDA_ARCHITECTURES=80-real -DCMAKE_CUDA_COMPILER="$nvcc" &&
        cmake --build build/cuda-sm80 -j "$cores" --target litespark_ops_cuda; then
        passed=$((passed + 1))
      else
        failed=$((failed + 1))
      fi
    fi
  else
    heading "CUDA code: skipped, no nvcc here"
    skipped=$((skipped + 1))
  fi
fi

echo "$slow_scale" >"$build/slow_scale"
for label in $labels; do
  heading "tests: $label"
  results="$PWD/$build/tests-$label.xml"
  rm -f "$results"
  # One more than there are cores: some tests only wait, for deadlines and other processes.
  ctest --test-dir "$build" --label-regex "^$label\$" --parallel $((cores + 1)) --output-on-failure --no-tests=ignore \
    --output-junit "$results" </dev/null | grep -v -E '^ *[0-9]+/[0-9]+ Test .* Passed|^ *Start +[0-9]+:'
  read -r label_passed label_failed label_skipped <<<"$(python3 tools/junit_counts.py "$results")"
  passed=$((passed + label_passed)) failed=$((failed + label_failed)) skipped=$((skipped + label_skipped))
done
finish
