#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a CUDA compiler command and fails it when ptxas remarks that it gave up a wgmma pipeline or a register hint
# (C75xx): such code is legal, correct and several times too slow.
log=$("$@" 2>&1)
status=$?
[ -z "$log" ] || printf '%s\n' "$log" >&2
case "$log" in
  *"(C75"*) echo "refused: ptxas gave up an optimisation (C75xx above)" >&2; exit 1 ;;
esac
exit $status
