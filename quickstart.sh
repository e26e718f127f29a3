#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the program needs, builds it, trains a five-million-parameter Llama on real English on this machine's CPU, and
# shows what it learned and what that cost. About six minutes on two cores; asks nothing; safe to run again.
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '\n== %s\n' "$*"; }
litespark=build/quickstart/cli/litespark
data=runs/quickstart-data
run=runs/quickstart

say "1/5 packages"
tools/install.sh quickstart

say "2/5 build"
cmake -S . -B build/quickstart -G Ninja -DCMAKE_BUILD_TYPE=Release -DLITESPARK_TESTS=OFF >build-quickstart.log 2>&1 &&
  cmake --build build/quickstart --target litespark >>build-quickstart.log 2>&1 ||
  { tail -30 build-quickstart.log; echo "the build failed; all of it: build-quickstart.log"; exit 1; }
rm -f build-quickstart.log
$litespark --version

say "3/5 data: the King James Bible, own tokenizer of 4,096, every 20th chapter held out"
if [ ! -f $data/eval/COMPLETE ]; then
  rm -rf $data
  tools/bible_chapters.sh $data
  $litespark prepare configs/quickstart-data.toml
fi

say "4/5 training"
compute=fp32
grep -qw avx512_bf16 /proc/cpuinfo && compute=bf16
if [ ! -f $run/run.toml ]; then
  # The number of steps is chosen once, so that slower machines stop in time, and stands in run.toml from then on.
  rate=$($litespark train configs/quickstart.toml --out=runs/quickstart-check --precision.compute=$compute \
    --train.steps=8 --schedule.warmup=1 --train.eval_every=0 --checkpoint.every=0 --checkpoint.resume=never |
    sed -n 's/.* \([0-9]*\) tokens\/s.*/\1/p' | tail -4 | sort -n | sed -n 2p)
  rm -rf runs/quickstart-check
  steps=$((rate * 120 / 4096))
  [ "$steps" -gt 400 ] && steps=400
  [ "$steps" -lt 60 ] && steps=60
  echo "speed check: $rate tokens/s in $compute, so $steps steps of 4,096 tokens"
  mkdir -p $run
  train="configs/quickstart.toml --train.steps=$steps --schedule.warmup=$((steps / 10)) --precision.compute=$compute"
else
  train=$run/run.toml
fi
$litespark train $train --out=$run

say "5/5 what it learned"
$litespark eval $run $data/eval
original=$(wc -c <$data/held_out.txt)
packed=$(gzip -9 -c $data/held_out.txt | wc -c)
echo "gzip -9 needs $(awk -v p="$packed" -v o="$original" 'BEGIN { printf "%.3f", p * 8 / o }') bits per byte for the same text"
$litespark generate $run --prompt="And it came to pass" --max_tokens=120 --temperature=0.8 --top_p=0.95
printf '\ncheckpoint: %s\nmetrics:    %s/metrics.jsonl\nreport:     %s/report.html\n' "$(ls -d $run/checkpoints/step-* | sort -V | tail -1)" "$run" "$run"
