#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/ranks.sh BUILD_DIR [CASES] [CONFIG] [STEPS]: with bench_cuda_ranks built before, trains on several GPUs of this machine
# and on one, and prints tokens a second (cases: see bench/cuda_ranks.cpp). The log goes to $OUT. About a minute a case at 3B.
build=${1:-build/cuda-only}
cases=${2:-1,2,2g}
config=${3:-configs/llama-3.2-3b.toml}
steps=${4:-20}
out=${OUT:-$build/results}
mkdir -p "$out"
nccl=$(python3 -c 'import nvidia.nccl,os;print(list(nvidia.nccl.__path__)[0])' 2>/dev/null)
export LD_LIBRARY_PATH=/usr/local/cuda/lib64:/usr/local/cuda/lib:$nccl/lib:$LD_LIBRARY_PATH
export NCCL_NVLS_ENABLE=0
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw,memory.used --format=csv,noheader
timeout 560 "$build"/bench/bench_cuda_ranks "$config" "$steps" "$cases" "${@:5}" 2>&1 | tee "$out/ranks.log"
exit "${PIPESTATUS[0]}"
