#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a sanitizer preset and runs the fast tests in it.
#   tools/sanitize.sh asan    addresses, leaks and undefined behaviour
#   tools/sanitize.sh tsan    data races: clang, whose OpenMP runtime tells the sanitizer about its own synchronisation
# Further arguments go to ctest, for example: tools/sanitize.sh asan -R Checkpoint
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:-}
case "$preset" in
  asan) tools/install.sh test ;;
  tsan) tools/install.sh tsan ;;
  *) echo "usage: tools/sanitize.sh asan|tsan [ctest options]" >&2; exit 2 ;;
esac
shift

cmake --preset "$preset" -DLITESPARK_TESTS=ON
cmake --build "build/$preset" -j "$(nproc)"

# oneDNN is not instrumented: its threads are trusted, ours are watched (ignore_noninstrumented_modules).
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=1"
export ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1"
export UBSAN_OPTIONS="print_stacktrace=1"
ctest --test-dir "build/$preset" --label-regex '^fast$' --exclude-regex '^Tidiness' --parallel "$(nproc)" \
  --output-on-failure "$@"
