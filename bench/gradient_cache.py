# SPDX-License-Identifier: Apache-2.0
"""What distribution.sync_small_every changes: losses, drift, calls, bytes and time of the quick start's 5M model on CPU ranks.

    python3 bench/gradient_cache.py --litespark build/release/cli/litespark --out gradient-cache.json

Trains on real text (./quickstart.sh prepares it) over Gloo, each k once a seed; the spread over seeds of k = 1 stands beside the
differences. Then short runs of each k in turn, several rounds, in a network namespace of their own (root) whose loopback has a
limited rate: what it counts is all that ranks sent. A run that is there already is taken as it is."""
import argparse
import json
import pathlib

from quickstart_ranks import add_arguments, head_of_result, limited_loopback, train


def settings_of(every):
    return [f"--distribution.sync_small_every={every}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--work", default="runs/gradient-cache")
    parser.add_argument("--short", type=int, default=41)
    parser.add_argument("--rate", default="1gbit", help="of the loopback, as tc says it")
    args = parser.parse_args()

    runs = {f"k={every}": {seed: train(args, f"k{every}", settings_of(every), seed) for seed in range(1, args.seeds + 1)}
            for every in (1, 5)}
    rounds = [{f"k={every}": limited_loopback(args, f"k{every}", settings_of(every), args.rate, args.short)
               for every in ((1, 5) if turn % 2 == 0 else (5, 1))} for turn in range(args.rounds)]
    result = {**head_of_result(args), "runs": runs, "limited_loopback": {"rate": args.rate, "rounds": rounds}}
    pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n")
    for name, seeds in runs.items():
        print(name, {seed: (round(run["last"], 4), round(run["held_out"][-1], 4), run.get("largest_drift"))
                     for seed, run in seeds.items()})
    for turn in rounds:
        print(turn)


main()
