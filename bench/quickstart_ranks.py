# SPDX-License-Identifier: Apache-2.0
"""Runs of the quick start's 5M model on several CPU ranks over Gloo: what gradient_cache.py and gradient_compression.py share."""
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

from host_ways import Hosts
from overlap import above_others

LAST = 100
SETTINGS = ["--device.kind=cpu", "--precision.compute=bf16", "--train.accumulation=1", "--train.sample_every=0",
            "--checkpoint.every=0", "--checkpoint.at_end=false", "--meter.timeline_every=0", "--train.log_every=50"]


def add_arguments(parser):
    parser.add_argument("--litespark", default="build/release/cli/litespark")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", required=True)


def rows_of(folder):
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def command_of(args, settings, out):
    return [args.litespark, "train", "configs/quickstart.toml", f"--gpus={args.ranks}", *SETTINGS, *settings, f"--out={out}"]


def train(args, name, settings, seed):
    """One run on real text, or what is there of it already."""
    out = pathlib.Path(args.work) / f"{name}-s{seed}"
    command = command_of(args, [*settings, "--train.micro_batch=4", f"--train.steps={args.steps}", f"--seed={seed}",
                                f"--schedule.warmup={args.steps // 10}", "--train.eval_every=100",
                                "--train.eval_batches=32"], out)
    if len([row for row in rows_of(out) if "lr" in row]) < args.steps:
        subprocess.run(["rm", "-rf", str(out)], check=True)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    rows = rows_of(out)
    steps = [row for row in rows if "lr" in row]
    result = {"command": " ".join(map(str, command)), "losses": [round(row["loss"], 5) for row in steps],
              "last": statistics.mean(row["loss"] for row in steps[-LAST:]),
              "held_out": [row["eval_loss"] for row in rows if "eval_loss" in row]}
    drift = [row["copy_drift"] for row in steps if "copy_drift" in row]
    if drift:
        result |= {"largest_drift": max(drift), "median_drift": statistics.median(drift)}
    return result


SHORT = ["--train.micro_batch=1", "--data.seq_len=64", "--schedule.warmup=1", "--train.eval_every=0"]


def step_seconds(folder):
    steps = [row for row in rows_of(folder) if "lr" in row]
    return [(row["tokens"] - before["tokens"]) / row["tokens_per_second"] for before, row in zip(steps, steps[1:])]


def limited_loopback(args, name, settings, rate, steps):
    """Seconds a step and what passed over a loopback of a limited rate, of a short run on little data."""
    out = pathlib.Path(args.work) / f"limited-{name}"
    command = command_of(args, [*settings, *SHORT, f"--train.steps={steps}"], out)
    shell = (f"ip link set lo up && tc qdisc add dev lo root tbf rate {rate} burst 256kb latency 200ms && "
             f"rm -rf {out} && {' '.join(map(str, command))} >/dev/null && grep lo: /proc/net/dev")
    said = subprocess.run(["unshare", "-n", "bash", "-c", shell], check=True, capture_output=True, text=True).stdout
    received = [int(word) for word in re.findall(r"\d+", said)]
    return {"step_seconds": statistics.median(step_seconds(out)), "bytes_a_step": received[0] / steps,
            "packets_a_step": received[1] / steps}


def between_hosts(args, settings, rate, steps):
    """The same with a host (a namespace of this machine) a rank, over links of `rate`: what the first host sent a step."""
    with Hosts(args.ranks, rate, "1500") as hosts, tempfile.TemporaryDirectory() as folder:
        secret = pathlib.Path(folder) / "secret"
        secret.touch(mode=0o600)
        secret.write_bytes(os.urandom(32))
        out = pathlib.Path(folder) / "out"
        ranks = []
        for rank in range(args.ranks):
            variables = {"RANK": rank, "SIZE": args.ranks, "LOCAL_RANK": 0, "JOB": "hosts", "ATTEMPT": 0,
                         "HOST": hosts.address(0), "PORT": 29500}
            command = command_of(args, [*settings, *SHORT, f"--train.steps={steps}", "--device.threads=1",
                                        "--distribution.tiers=sharded", f"--distribution.secret_file={secret}"], out)
            command.remove(f"--gpus={args.ranks}")
            ranks.append(subprocess.Popen(["ip", "netns", "exec", hosts.names[rank], *command], stdout=subprocess.DEVNULL,
                                          preexec_fn=above_others,
                                          env=os.environ | {f"LITESPARK_{k}": str(v) for k, v in variables.items()}))
        if any([rank.wait(timeout=600) for rank in ranks]):
            raise SystemExit("a rank failed")
        counted = subprocess.run(["ip", "netns", "exec", hosts.names[0], "cat", "/proc/net/dev"], check=True,
                                 capture_output=True, text=True).stdout
        sent = int(re.search(r"net0:\s*(.*)", counted)[1].split()[8])
        return {"step_seconds": statistics.median(step_seconds(out)), "bytes_sent_a_step": sent / steps}


def head_of_result(args):
    model = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    return {"date": datetime.date.today().isoformat(),
            "machine": {"cores": os.cpu_count(), "processor": model, "system": platform.system() + " " + platform.machine()},
            "command": "python3 " + " ".join(map(str, sys.argv)), "tokens_a_step": args.ranks * 4 * 256}
