#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of the gradients' reduction a step waits for: two hosts (namespaces of this machine, one core each) train
configs/5m.toml over links with a rate, with batches of several lengths.

    overlap.py BUILD_FOLDER [--rate 1gbit] [--micro-batches 4,8,16] [--seq-len 256] [--rounds 1] [--section.key=value ...]

Needs root. Of the steps' timelines of rank 0: `backward`, seconds of backward's own ops; `exposed`, seconds in backward.reduce, where
a step waits for sums. `communication` is what a step with next to no backward (one sequence of 16 tokens) takes for both, so
that exposed = communication - backward there. Hidden in the best case: max(0, communication - backward). `late`, by how much the
other rank's own work took longer (rank_seconds of metrics.jsonl, mean over steps of what is above 0): no sum ends before, however
fast it travels, so it counts as unavoidable too.
Of several rounds, in which all lengths take turns, the medians follow at the end.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from host_ways import Hosts

WARM_STEPS = 2  # which the timeline leaves out too
RUN_FILE = pathlib.Path(__file__).resolve().parent.parent / "configs/5m.toml"


def above_others():
    """A session of its own, which the scheduler puts before all others (ordinary priorities count within one alone)."""
    os.setsid()
    pathlib.Path("/proc/self/autogroup").write_text("-19")


def scopes_of(options, micro_batch, seq_len, steps):
    with Hosts(2, options.rate, "1500") as hosts, tempfile.TemporaryDirectory() as folder:
        secret = pathlib.Path(folder) / "secret"
        secret.touch(mode=0o600)
        secret.write_bytes(os.urandom(32))
        ranks = []
        for rank in range(2):
            variables = {"RANK": rank, "SIZE": 2, "LOCAL_RANK": 0, "JOB": "overlap", "ATTEMPT": 0,
                         "HOST": hosts.address(0), "PORT": 29500}
            words = ["ip", "netns", "exec", hosts.names[rank], "taskset", "-c", str(rank % os.cpu_count()),
                     options.build / "cli/litespark", "train", RUN_FILE, "--device.kind=cpu", "--device.threads=1",
                     f"--train.steps={steps}", "--schedule.warmup=1", "--meter.timeline_every=1", "--train.log_every=1",
                     f"--train.micro_batch={micro_batch}", f"--data.seq_len={seq_len}", "--checkpoint.at_end=false",
                     f"--distribution.secret_file={secret}", f"--out={folder}/out", *options.settings]
            if options.free_cores:
                del words[4:7]
            ranks.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, preexec_fn=above_others,
                                          env=os.environ | {f"LITESPARK_{k}": str(v) for k, v in variables.items()}))
        if any([rank.wait(timeout=200) for rank in ranks]):
            raise SystemExit("a rank failed")
        timeline = json.loads((pathlib.Path(folder) / "out/timeline.json").read_text())
        metrics = [json.loads(line) for line in (pathlib.Path(folder) / "out/metrics.jsonl").read_text().splitlines()]
    # Of two ranks the median is the faster one's.
    late = [row["rank_seconds_slowest"] - row["rank_seconds_median"] if row["slowest_rank"] == 1 else 0.0
            for row in metrics if "rank_seconds_slowest" in row][WARM_STEPS:]
    found = {"backward": 0.0, "exposed": 0.0, "gather": 0.0, "step": timeline["step_seconds"], "late": statistics.mean(late)}
    for scope in timeline["scopes"]:
        if scope["name"] == "backward.reduce":
            found["exposed"] += scope["seconds"]
        elif scope["name"].endswith(".gather"):
            found["gather"] += scope["seconds"]
        elif scope["kind"] == "backward":
            found["backward"] += scope["seconds"]
    return found


def print_row(micro_batch, row):
    print("{:9}  {:13.3f}  {:8.3f}  {:22.2f}  {:7.3f}  {:11.3f}  {:5.3f}  {:26.2f}  {:6.3f}  {:.3f}".format(micro_batch, *row),
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--micro-batches", default="4,8,16")
    parser.add_argument("--seq-len", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--free-cores", action="store_true", help="ranks are not bound to a core each")
    options, options.settings = parser.parse_known_args()
    options.build = options.build.resolve()
    print("sequences  communication  backward  communication/backward  exposed  unavoidable   late  beyond / communication      "
          "gather  step")
    rows = {}
    for _ in range(options.rounds):
        alone = scopes_of(options, 1, 16, options.steps)
        communication = alone["exposed"] + alone["backward"]
        for micro_batch in map(int, options.micro_batches.split(",")):
            found = scopes_of(options, micro_batch, options.seq_len, options.steps)
            unavoidable = max(0.0, communication - found["backward"])
            beyond = found["exposed"] - unavoidable - found["late"]
            row = (communication, found["backward"], communication / found["backward"], found["exposed"], unavoidable,
                   found["late"], beyond / communication, found["gather"], found["step"])
            rows.setdefault(micro_batch, []).append(row)
            print_row(micro_batch, row)
    if options.rounds > 1:
        print(f"medians of {options.rounds} rounds")
        for micro_batch, of_rounds in rows.items():
            print_row(micro_batch, [statistics.median(column) for column in zip(*of_rounds)])


if __name__ == "__main__":
    main()
