#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tools/gpu_sanitize.sh [BUILD_DIR] [TOOL...]: compute-sanitizer (default: memcheck racecheck initcheck) over every kernel of the
# CUDA backend on small shapes, under a minute each. Prints a line a tool and what was found; exit status 0 only when all ran
# and found nothing. Logs go to $OUT or BUILD_DIR/results. RACECHECK_BUILD names a folder built with LITESPARK_RACECHECK=ON, whose
# barriers racecheck can follow; without it, it reports the Hopper backward's statistics.
build=${1:-build/cuda-only}
shift
tools=${*:-memcheck racecheck initcheck}
out=${OUT:-$build/results}
mkdir -p "$out"
export PATH=$PATH:/usr/local/cuda/bin
# The library's own kernels are memchecked with our sizes and pointers; their races and padding are not ours to judge.
only_ours=
compute-sanitizer --help 2>/dev/null | grep -q -- --kernel-regex && only_ours="--kernel-regex kns=litespark"
filter=${SANITIZE_FILTER:-SmallShapes.*:Bias.*:Convert.*:Rope.*:SwiGlu.GradientMay*:GatedProduct.HHas*:GatedProduct.GradientMay*:SwiGlu.Extreme*:RmsNorm.Sum*:Loss.Ignored*:Loss.Reduce*:Optimizer.Skipped*:Embedding.GradientLeaves*:Embedding.GradientCounts*:Embedding.Bad*:HeadNorm.Both*:ColumnSum.*}
failed=0
for tool in $tools; do
  log=$out/sanitize_$tool.log
  start=$SECONDS
  tests=$build/tests/test_ops_cuda
  [ "$tool" = racecheck ] && tests=${RACECHECK_BUILD:-$build}/tests/test_ops_cuda
  options="--tool $tool --error-exitcode 9 --print-limit 20"
  [ "$tool" = memcheck ] || options+=" $only_ours"
  # shellcheck disable=SC2086
  timeout "${SANITIZE_SECONDS:-120}" compute-sanitizer $options "$tests" --gtest_filter="$filter" --gtest_brief=1 >"$log" 2>&1
  status=$?
  [ $status -eq 0 ] && grep -q '\[  PASSED  \]' "$log" || failed=1
  printf '%-10s exit %d, %d s: %s\n' "$tool" $status $((SECONDS - start)) "$(grep -E 'SUMMARY' "$log" | tail -1)"
  grep -E 'Invalid|Race reported|Uninitialized|\[  FAILED  \]' "$log" | sort | uniq -c | head -10
done
exit $failed
