#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/one_rank.sh [CASE ...]: what the code for several ranks costs where there is one. Ways, in turn for ROUNDS rounds (7), and
# back to front in every other:
#   plain    a run that meets nobody
#   ranks    distribution.at_one_rank: rendezvous, a communicator of one rank (NCCL on a GPU, else Gloo), gradients in buckets,
#            reductions, gathers and the step's message on the tapes
#   graphs   the same with distribution.graphs, on a GPU (there plain runs are graphs, and ranks alone are not)
# CASE is CONFIG:BATCH:LENGTH[:key=value,...], CONFIG a name in configs/; on a GPU llama-160m:16:2048 and llama-3.2-1b:4:4096 when none
# is given, else 5m:16:256. Prints for each way the median over rounds of the median seconds a step, and, round by round, the ratio
# to plain: its median, least and most. STEPS (24) steps a run, of which the first 4 do not count. BUILD names a folder of binaries,
# OUT where the lines and each run's metrics go.
cd "$(dirname "$0")/.." || exit 1
has_gpu=false
nvidia-smi -L >/dev/null 2>&1 && has_gpu=true
if $has_gpu; then build=${BUILD:-build/cuda-only}; else build=${BUILD:-build/release}; fi
out=${OUT:-$build/results/one_rank}
steps=${STEPS:-24}
rounds=${ROUNDS:-7}
program=$build/cli/litespark
nccl=$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])' 2>/dev/null)
cudnn=$(python3 -c 'import nvidia.cudnn; print(list(nvidia.cudnn.__path__)[0])' 2>/dev/null)
export LD_LIBRARY_PATH=/usr/local/cuda/lib64:$nccl/lib:$cudnn/lib:$LD_LIBRARY_PATH
mkdir -p "$out"
secret=$(mktemp "$out/secret.XXXXXX")  # of mode 0600
trap 'rm -f "$secret"' EXIT
head -c 32 /dev/urandom >"$secret"
if $has_gpu; then ways=(plain ranks graphs); else ways=(plain ranks); fi
if [ $# -eq 0 ]; then
  if $has_gpu; then set -- llama-160m:16:2048 llama-3.2-1b:4:4096; else set -- 5m:16:256; fi
fi

# run WAY FOLDER OPTION...: one run; its metrics.jsonl lies in FOLDER.
run() {
  local way=$1 folder=$2
  shift 2
  rm -rf "$folder"
  local command=("$program" train "$@" "--out=$folder" "--train.steps=$steps" --schedule.warmup=0 --checkpoint.at_end=false
    --meter.timeline_every=0 --train.log_every=1)
  case $way in
    ranks) command+=(--distribution.at_one_rank=true "--distribution.secret_file=$secret") ;;
    graphs) command+=(--distribution.at_one_rank=true "--distribution.secret_file=$secret" --distribution.graphs=true) ;;
  esac
  if [ "$way" = plain ]; then
    "${command[@]}" >"$folder.log" 2>&1
  else
    RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 20000)) "${command[@]}" >"$folder.log" 2>&1
  fi || { echo "$way failed:"; tail -5 "$folder.log"; exit 1; }
}

for case in "$@"; do
  IFS=: read -r config batch length more <<<"$case"
  options=("configs/$config.toml" "--train.micro_batch=$batch" "--data.seq_len=$length")
  for setting in ${more//,/ }; do options+=("--$setting"); done
  for ((round = 0; round < rounds; ++round)); do
    order=("${ways[@]}")
    if ((round % 2)); then order=(); for way in "${ways[@]}"; do order=("$way" "${order[@]}"); done; fi
    for way in "${order[@]}"; do run "$way" "$out/$config-$way-$round" "${options[@]}"; done
  done
  python3 - "$out/$config" "$rounds" "$case" "${ways[@]}" <<'END' | tee -a "$out/one_rank.txt"
import json, statistics, sys
stem, rounds, case, *ways = sys.argv[1:]
tokens = int(case.split(":")[1]) * int(case.split(":")[2])
def seconds(way, at):
    with open(f"{stem}-{way}-{at}/metrics.jsonl", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if "lr" in row]
    return tokens / statistics.median(row["tokens_per_second"] for row in rows[4:]), rows[-1]["loss"]
found = {way: [seconds(way, at) for at in range(int(rounds))] for way in ways}
for way in ways:
    times = [time for time, _ in found[way]]
    ratios = [time / plain for time, (plain, _) in zip(times, found["plain"])]
    same = "same last loss as plain" if {loss for _, loss in found[way]} == {loss for _, loss in found["plain"]} else "OTHER LOSSES"
    print(f"{case}  {way:7} {1e3 * statistics.median(times):9.3f} ms a step  x {statistics.median(ratios):.4f} of plain "
          f"({min(ratios):.4f} to {max(ratios):.4f})  {same}")
END
done
