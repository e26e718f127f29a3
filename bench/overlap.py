#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of the gradients' reduction a step waits for: two hosts (namespaces of this machine, one core each) train
configs/5m.toml over links with a rate, with batches of several lengths.

    overlap.py BUILD_FOLDER [--rate 1gbit] [--micro-batches 4,8,16] [--seq-len 256] [--rounds 1] [--section.key=value ...]

Needs root. By both ranks' records of their calls (distribution.record_calls) and rank 0's timeline:
`communication`: from the first reduction on both ranks to the end of the last in a step with next to no backward (one sequence
of 16 tokens). Then of each step:
`backward`: seconds of backward on the rank that hands over its last gradients later; `late`: how much later that is;
`exposed`: from that moment until the last sum has come, which is what communication costs: nothing could be sent before, and what the
earlier rank waits until then, the later one computes;
`unavoidable`: max(0, communication - backward), what stays exposed in the best case; `beyond`: the rest of `exposed`, as a share of
communication; `wait`: all that rank 0 waits at backward's end, late ranks included.
Medians of a run's steps; of several rounds, in which all lengths take turns, medians follow at the end.
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


def steps_and_means(options, micro_batch, seq_len, steps):
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
                     f"--distribution.secret_file={secret}", "--distribution.record_calls=65536", f"--out={folder}/out", *options.settings]
            if options.free_cores:
                del words[4:7]
            ranks.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, preexec_fn=above_others,
                                          env=os.environ | {f"LITESPARK_{k}": str(v) for k, v in variables.items()}))
        if any([rank.wait(timeout=200) for rank in ranks]):
            raise SystemExit("a rank failed")
        timeline = json.loads((pathlib.Path(folder) / "out/timeline.json").read_text())
        records = [[json.loads(line) for line in (pathlib.Path(folder) / f"out/calls/rank-{rank}.jsonl").read_text().splitlines()]
                   for rank in range(2)]
    own_backward = sum(scope["seconds"] for scope in timeline["scopes"]
                       if scope["kind"] == "backward" and scope["name"] != "backward.reduce" and not scope["name"].endswith(".gather"))
    gather = sum(scope["seconds"] for scope in timeline["scopes"] if scope["name"].endswith(".gather"))
    steps = steps_of(records)
    # Backward begins before its first reduction.
    before_first = own_backward - statistics.median(first[-1]["issued"] - first[0]["issued"] for first, _ in steps)
    return [reductions_of(*step, before_first) for step in steps], {"gather": gather, "step": timeline["step_seconds"]}


def steps_of(records):
    """Of every step that counts, both ranks' reductions of gradients, in order."""
    both = []
    for calls in records:
        of_step = {}
        for call in calls:
            if call["what"].startswith("reduce_scatter"):
                of_step.setdefault(call["step"], []).append(call)
        both.append(of_step)
    return [(both[0][step], both[1][step]) for step in sorted(both[0].keys() & both[1].keys())[WARM_STEPS:]]


def reductions_of(first, second, before_first):
    later, earlier = (first, second) if first[-1]["issued"] > second[-1]["issued"] else (second, first)
    handed_over = later[-1]["issued"]
    end = max(call["ended"] for call in first + second)
    return {"span": end - max(first[0]["issued"], second[0]["issued"]),
            "backward": before_first + handed_over - later[0]["issued"],
            "exposed": end - handed_over,
            "late": handed_over - earlier[-1]["issued"],
            "wait": sum(call["wait_ended"] - call["wait_begun"] for call in first if call["wait_begun"] is not None)}


COLUMNS = ("communication", "backward", "ratio", "exposed", "unavoidable", "beyond", "late", "wait", "gather", "step")


def print_row(micro_batch, row):
    print(f"{micro_batch:9}  " + "  ".join(f"{value:{max(len(name), 6)}.3f}" for name, value in zip(COLUMNS, row)), flush=True)


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
    print("sequences  " + "  ".join(f"{name:>6}" for name in COLUMNS))
    rows = {}
    for _ in range(options.rounds):
        alone, _ = steps_and_means(options, 1, 16, options.steps)
        communication = statistics.median(step["span"] for step in alone)
        for micro_batch in map(int, options.micro_batches.split(",")):
            steps, row = steps_and_means(options, micro_batch, options.seq_len, options.steps)
            for step in steps:
                step["unavoidable"] = max(0.0, communication - step["backward"])
                step["beyond"] = (step["exposed"] - step["unavoidable"]) / communication
            row |= {key: statistics.median(step[key] for step in steps) for key in steps[0]}
            row |= {"communication": communication, "ratio": communication / row["backward"]}
            rows.setdefault(micro_batch, []).append([row[name] for name in COLUMNS])
            print_row(micro_batch, rows[micro_batch][-1])
    if options.rounds > 1:
        print(f"medians of {options.rounds} rounds")
        for micro_batch, of_rounds in rows.items():
            print_row(micro_batch, [statistics.median(column) for column in zip(*of_rounds)])
            beyond = sorted(row[COLUMNS.index("beyond")] for row in of_rounds)
            print("           beyond: " + " ".join(f"{value:.3f}" for value in beyond))


if __name__ == "__main__":
    main()
