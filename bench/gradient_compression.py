# SPDX-License-Identifier: Apache-2.0
"""What distribution.compression changes: losses, bytes and time of the quick start's 5M model on CPU ranks.

    python3 bench/gradient_compression.py --litespark build/release/cli/litespark --out gradient-compression.json

Trains on real text (./quickstart.sh prepares it) over Gloo: f32 gradients once a seed, whose spread stands beside the differences,
and each format with and without error feedback. Then short runs in turn, several rounds, with a host (a network namespace; root) a
rank and links of each rate. A run that is there already is taken as it is."""
import argparse
import json
import pathlib

from quickstart_ranks import add_arguments, between_hosts, head_of_result, train

FORMATS = {"none": [], "bf16": ["--distribution.compression=bf16"],
           "bf16-without": ["--distribution.compression=bf16", "--distribution.error_feedback=false"],
           "fp16": ["--distribution.compression=fp16"],
           "fp16-without": ["--distribution.compression=fp16", "--distribution.error_feedback=false"]}
TIMED = ("none", "bf16", "fp16")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--work", default="runs/gradient-compression")
    parser.add_argument("--rates", default="1gbit,100mbit", help="of the links, as tc says it")
    parser.add_argument("--short", type=int, default=13)
    parser.add_argument("--part", choices=["all", "losses", "times"], default="all")
    args = parser.parse_args()

    result = head_of_result(args)
    if args.part != "times":
        result["runs"] = {name: {seed: train(args, name, settings, seed)
                                 for seed in range(1, (args.seeds if name == "none" else 1) + 1)}
                          for name, settings in FORMATS.items()}
        for name, seeds in result["runs"].items():
            print(name, {seed: (round(run["last"], 4), [round(loss, 4) for loss in run["held_out"]])
                         for seed, run in seeds.items()}, flush=True)
    if args.part != "losses":
        result["between_hosts"] = {}
        for rate in args.rates.split(","):
            rounds = [{name: between_hosts(args, FORMATS[name], rate, args.short)
                       for name in (TIMED if turn % 2 == 0 else TIMED[::-1])} for turn in range(args.rounds)]
            result["between_hosts"][rate] = rounds
            for turn in rounds:
                print(rate, {name: (round(found["step_seconds"], 4), round(found["bytes_sent_a_step"]))
                             for name, found in turn.items()}, flush=True)
    pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n")


main()
