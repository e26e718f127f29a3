#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/gpu.sh [STAGE ...]: everything that is to be shown on a machine with an NVIDIA GPU, CUDA 13, CMake, ninja and GoogleTest.
# Stages, in this order when none is named:
#   build     preset cuda-only (toml++ and xxhash headers in LITESPARK_EXTRA_INCLUDE, by GPU_CMAKE_ARGS)
#   test      tests labelled gpu
#   golden    the causal-lm and packed-documents reference cases in fp32 and bf16
#   sanitize  compute-sanitizer memcheck, racecheck, initcheck on small shapes
#   bench     kernels, matmuls and attention by themselves
#   train     the training table, PyTorch in the same call (TRAIN_CASES, TRAIN_PEERS, TRAIN_STEPS)
#   memory    what stands beside the plan, flat memory over 2,000 steps
#   anatomy   causes of cost (ANATOMY_CHAPTERS), a hardware file for `litespark plan`, and what `monitor` sees of the device
# Ends with a short table. Logs, JSON and the table go to $OUT, or build/cuda-only/results. BUILD names a folder of binaries that
# were built before. Never touches the card's settings.
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build/cuda-only}
out=${OUT:-$build/results}
jobs=${JOBS:-$(nproc)}
mkdir -p "$out"
stages=${*:-build test golden sanitize bench train memory anatomy}
cudnn=$(python3 -c 'import nvidia.cudnn; print(list(nvidia.cudnn.__path__)[0])' 2>/dev/null)
export PATH=$PATH:/usr/local/cuda/bin LD_LIBRARY_PATH=/usr/local/cuda/lib64:$cudnn/lib:$LD_LIBRARY_PATH
program=$build/cli/litespark
table=$out/table.txt
failed=0
: >"$table"

# stage NAME COMMAND...: runs it with its output in $out/NAME.log and remembers how it ended and how long it took.
stage() {
  local name=$1 start=$SECONDS status
  shift
  "$@" >"$out/$name.log" 2>&1
  status=$?
  if [ $status -eq 0 ]; then status=ok; else status="FAILED ($status)"; failed=1; fi
  printf '%-22s %-14s %5d s\n' "$name" "$status" $((SECONDS - start)) | tee -a "$table"
  [ "$status" = ok ]
}

build() {
  # The warnings of other compilers than ours are no reason to stop here.
  # shellcheck disable=SC2086
  cmake --preset cuda-only -B "$build" -DLITESPARK_TESTS=ON -DLITESPARK_BENCH=ON -DLITESPARK_WERROR=OFF ${GPU_CMAKE_ARGS:-} &&
    cmake --build "$build" -j "$jobs" --target litespark test_ops_cuda bench_cuda_ops bench_cuda_matmul_attention \
      bench_cuda_gated bench_cuda_attention_parts
}

golden() {
  local status=0 case kind compute
  for case in tests/golden/*/; do
    kind=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get("kind"))' "$case/case.json" 2>/dev/null)
    case $kind in causal-lm | packed-documents) ;; *) continue ;; esac
    for compute in fp32 bf16; do
      echo "== $(basename "$case") $compute"
      timeout 60 "$program" verify "$case" --compute "$compute" --device cuda || status=1
    done
  done
  return $status
}

machine() {
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu,memory.used --format=csv
  nvcc --version | tail -2
  nproc
}

stage machine machine
for name in $stages; do
  case $name in
    build) stage build build || { tail -40 "$out/build.log"; exit 1; } ;;
    test) stage test "$build/tests/test_ops_cuda" --gtest_brief=1 ;;
    golden) stage golden golden ;;
    sanitize) OUT=$out stage sanitize tools/gpu_sanitize.sh "$build" ;;
    bench)
      stage bench_ops "$build/bench/bench_cuda_ops" "$out/ops.json"
      stage bench_matmul "$build/bench/bench_cuda_matmul_attention" "${MATMUL_BENCH:-all}" --json="$out/matmul_attention.json"
      stage bench_gated "$build/bench/bench_cuda_gated" --json="$out/gated.json"
      stage bench_parts "$build/bench/bench_cuda_attention_parts" --json="$out/attention_parts.json"
      ;;
    train)
      # shellcheck disable=SC2086
      stage train python3 bench/train_gpu.py --litespark "$program" --out "$out/train.json" --steps "${TRAIN_STEPS:-24}" \
        --peers "${TRAIN_PEERS-bf16}" ${TRAIN_CASES:-160m:16:2048 1.6b:8:1024 1b:4:4096 3b:4:4096}
      ;;
    memory) stage memory bench/gpu_memory.sh "$program" "$out/memory.txt" ;;
    anatomy)
      stage monitor "$program" monitor --device --once --json
      chapters=${ANATOMY_CHAPTERS-embedding positions attention norm kernels width}
      files=()
      case $chapters in *kernels* | *collectives*) files+=("--hardware-file=$out/hardware.toml") ;; esac
      case $chapters in *width*) files+=("--width-file=$out/widths.toml") ;; esac
      # shellcheck disable=SC2086
      stage anatomy "$program" anatomy $chapters --device=cuda --full --folder="$out" "${files[@]}"
      ;;
    *) echo "unknown stage $name; stages are build test golden sanitize bench train memory anatomy"; exit 2 ;;
  esac
done

for log in machine test golden sanitize train monitor; do
  [ -f "$out/$log.log" ] && { echo "-- $log"; grep -vE '^Running main|^$' "$out/$log.log" | tail -25 | cut -c1-200; }
done
[ -f "$out/memory.txt" ] && { echo "-- memory"; cat "$out/memory.txt"; }
echo "--"
cat "$table"
exit $failed
