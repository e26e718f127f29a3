#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/gpu_fp8.sh BUILD_DIR [STAGE ...]: with binaries built before, what 8-bit matmuls do on this GPU. Stages: test (the ops and a
# short training run against bf16), attention (its forward on 8-bit floats beside bf16's, 20 steps of 3B), ops (GB/s of the copies),
# matmul (the products of 3B and 1B beside bf16's), train (20 steps of 3B in bf16, 8 bits by tensor, by row), loss (the 160M shape on
# real text in both, three seeds; needs runs/quickstart-data), attention_loss (the same with heads of 128, of bf16 and of attention's
# forward on 8-bit floats, in 290 s: no seed is begun that would not end by then). Default: test ops matmul train. OPS_PARTS,
# MATMUL_MODELS, LOSS_STEPS, LOSS_SEEDS make them shorter. Logs and JSON go to $OUT.
build=${1:-build/cuda-only}
shift
stages=${*:-test ops matmul train}
out=${OUT:-$build/results}
mkdir -p "$out"
cudnn=$(python3 -c 'import nvidia.cudnn,os;print(list(nvidia.cudnn.__path__)[0])' 2>/dev/null)
export LD_LIBRARY_PATH=/usr/local/cuda/lib64:$cudnn/lib:$LD_LIBRARY_PATH
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw,memory.used --format=csv,noheader

run_test() {
  timeout 150 "$build"/tests/test_ops_cuda --gtest_filter='Fp8*:SwiGlu*:RmsNorm*:Matmul*' >"$out/fp8_test.log" 2>&1
  echo "tests: exit $?"
  grep -E '^\[  (FAILED|PASSED)|^\[==|relative error|Failure' "$out/fp8_test.log" | tail -25
  for form in compute fp8; do
    timeout 60 "$build"/cli/litespark train configs/llama-160m.toml --train.steps=12 --train.log_every=4 --schedule.warmup=2 --precision.matmul=$form \
      --checkpoint.at_end=false --out="$build/fp8_run_$form" >"$out/fp8_run_$form.log" 2>&1
    echo "160M $form: exit $?"
    grep -E 'step +(4|8|12)/' "$out/fp8_run_$form.log" | cut -c1-150
  done
  tail -1 "$build/fp8_run_fp8/metrics.jsonl" | cut -c1-400
}

run_attention() {
  timeout 150 "$build"/tests/test_ops_cuda --gtest_filter='AttentionFp8*:AttentionForward*' >"$out/fp8_attention_test.log" 2>&1
  echo "attention tests: exit $?"
  grep -E '^\[  (FAILED|PASSED)|^\[==|Failure' "$out/fp8_attention_test.log" | tail -25
  timeout 120 "$build"/bench/bench_cuda_matmul_attention fp8-attention --seconds=0.3 --json="$out/fp8_attention.json" \
    >"$out/fp8_attention.log" 2>&1
  echo "attention: exit $?"
  cut -c1-170 "$out/fp8_attention.log"
  timeout 240 python3 bench/train_gpu.py --litespark "$build"/cli/litespark --out "$out/fp8_attention_train.json" --steps 20 --peers "" \
    3b:4:4096 3b:4:4096:precision.attention=fp8 3b:4:4096:precision.matmul=fp8,precision.attention=fp8 >"$out/fp8_attention_train.log" 2>&1
  echo "attention train: exit $?"
  cut -c1-200 "$out/fp8_attention_train.log"
}

run_ops() {
  for part in ${OPS_PARTS:-fp8 abs_max}; do
    timeout 120 "$build"/bench/bench_cuda_ops "$out/fp8_ops_$part.json" $part >"$out/fp8_ops_$part.log" 2>&1
    echo "ops $part: exit $?"
    grep -E '3B|copy  ' "$out/fp8_ops_$part.log" | cut -c1-110
  done
}

run_matmul() {
  for model in ${MATMUL_MODELS:-3B 1B}; do
    timeout 120 "$build"/bench/bench_cuda_matmul_attention fp8 --model=$model --seconds=0.3 --json="$out/fp8_matmul_$model.json" \
      >"$out/fp8_matmul_$model.log" 2>&1
    echo "matmul $model: exit $?"
    cut -c1-170 "$out/fp8_matmul_$model.log"
  done
}

run_train() {
  timeout 240 python3 bench/train_gpu.py --litespark "$build"/cli/litespark --out "$out/fp8_train.json" --steps 20 --peers "" \
    3b:4:4096 3b:4:4096:precision.matmul=fp8 3b:4:4096:precision.matmul=fp8,precision.fp8_scaling=row >"$out/fp8_train.log" 2>&1
  echo "train: exit $?"
  cut -c1-200 "$out/fp8_train.log"
}

run_loss() {
  timeout 590 python3 bench/loss_formats.py --litespark "$build"/cli/litespark --data runs/quickstart-data --out "$out/fp8_loss.json" \
    --steps "${LOSS_STEPS:-1000}" --seeds "${LOSS_SEEDS:-1,2,3}" --formats "bf16,fp8" >"$out/fp8_loss.log" 2>&1
  echo "loss: exit $?"
  tail -8 "$out/fp8_loss.log"
}

run_attention_loss() {
  timeout 300 python3 bench/loss_formats.py --litespark "$build"/cli/litespark --data runs/quickstart-data --out "$out/fp8_attention_loss.json" \
    --work "$build/loss_attention" --steps "${LOSS_STEPS:-1000}" --seeds "${LOSS_SEEDS:-1,2,3}" --formats "bf16,attention-fp8" --heads 6 \
    --length 1024 --batch 8 --seconds 290 >"$out/fp8_attention_loss.log" 2>&1
  echo "attention loss: exit $?"
  tail -8 "$out/fp8_attention_loss.log"
}

for stage in $stages; do run_"$stage"; done
