# SPDX-License-Identifier: Apache-2.0
"""What distribution.sync_small_every changes: losses, drift, calls, bytes and time of the quick start's 5M model on CPU ranks.

    python3 bench/gradient_cache.py --litespark build/release/cli/litespark --out gradient-cache.json

Trains on real text (./quickstart.sh prepares it) over Gloo, each k once a seed; the spread over seeds of k = 1 stands beside the
differences. Then short runs of each k in turn, several rounds, in a network namespace of their own (root) whose loopback has a
limited rate: what it counts is all that ranks sent. A run that is there already is taken as it is."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

LAST = 100
SETTINGS = ["--device.kind=cpu", "--precision.compute=bf16", "--train.accumulation=1", "--train.sample_every=0",
            "--checkpoint.every=0", "--checkpoint.at_end=false", "--meter.timeline_every=0", "--train.log_every=50"]


def rows_of(folder):
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def command_of(args, every, more, out):
    return [args.litespark, "train", "configs/quickstart.toml", f"--gpus={args.ranks}", *SETTINGS,
            f"--distribution.sync_small_every={every}", *more, f"--out={out}"]


def train(args, every, seed):
    out = pathlib.Path(args.work) / f"k{every}-s{seed}"
    command = command_of(args, every, ["--train.micro_batch=4", f"--train.steps={args.steps}", f"--seed={seed}",
                                       f"--schedule.warmup={args.steps // 10}", "--train.eval_every=100",
                                       "--train.eval_batches=32"], out)
    if len([row for row in rows_of(out) if "lr" in row]) < args.steps:
        subprocess.run(["rm", "-rf", str(out)], check=True)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    rows = rows_of(out)
    steps = [row for row in rows if "lr" in row]
    drift = [row["copy_drift"] for row in steps if "copy_drift" in row]
    return {"command": " ".join(map(str, command)), "losses": [round(row["loss"], 5) for row in steps],
            "last": statistics.mean(row["loss"] for row in steps[-LAST:]),
            "held_out": [row["eval_loss"] for row in rows if "eval_loss" in row],
            "largest_drift": max(drift, default=None), "median_drift": statistics.median(drift) if drift else None}


def limited(args, every):
    """Seconds a step and what passed over the loopback, of a short run on little data."""
    out = pathlib.Path(args.work) / f"limited-k{every}"
    command = command_of(args, every, ["--train.micro_batch=1", "--data.seq_len=64", f"--train.steps={args.short}",
                                       "--schedule.warmup=1", "--train.eval_every=0"], out)
    shell = (f"ip link set lo up && tc qdisc add dev lo root tbf rate {args.rate} burst 256kb latency 200ms && "
             f"rm -rf {out} && {' '.join(map(str, command))} >/dev/null && grep lo: /proc/net/dev")
    said = subprocess.run(["unshare", "-n", "bash", "-c", shell], check=True, capture_output=True, text=True).stdout
    received = [int(word) for word in re.findall(r"\d+", said)]
    steps = [row for row in rows_of(out) if "lr" in row]
    seconds = [(row["tokens"] - before["tokens"]) / row["tokens_per_second"] for before, row in zip(steps, steps[1:])]
    return {"step_seconds": statistics.median(seconds), "bytes_a_step": received[0] / len(steps),
            "packets_a_step": received[1] / len(steps)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--litespark", default="build/release/cli/litespark")
    parser.add_argument("--work", default="runs/gradient-cache")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--short", type=int, default=41)
    parser.add_argument("--rate", default="1gbit", help="of the loopback, as tc says it")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    runs = {f"k={every}": {seed: train(args, every, seed) for seed in range(1, args.seeds + 1)} for every in (1, 5)}
    rounds = [{f"k={every}": limited(args, every) for every in ((1, 5) if turn % 2 == 0 else (5, 1))}
              for turn in range(args.rounds)]
    model = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    result = {"date": datetime.date.today().isoformat(),
              "machine": {"cores": os.cpu_count(), "processor": model, "system": platform.platform()},
              "command": "python3 " + " ".join(map(str, sys.argv)), "tokens_a_step": args.ranks * 4 * 256,
              "runs": runs, "limited_loopback": {"rate": args.rate, "rounds": rounds}}
    pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n")
    for name, seeds in runs.items():
        print(name, {seed: (round(run["last"], 4), round(run["held_out"][-1], 4), run["largest_drift"])
                     for seed, run in seeds.items()})
    for turn in rounds:
        print(turn)


main()
