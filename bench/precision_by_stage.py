# SPDX-License-Identifier: Apache-2.0
"""Speed and loss of every choice of docs/precision.md, each against the same run with defaults.

    python3 bench/precision_by_stage.py --litespark build/release/cli/litespark --text FILE [--choices rope,master] [--set KEY=VALUE]

A small Llama on the bytes of a text; the default also runs with another seed. One line a choice: tokens a second (median over
the steps after the first five), the mean over the last quarter of the losses, and over all steps the mean and the largest
difference of the loss to the default's. What rope loses before a single step is in `litespark anatomy positions`."""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

CHOICES = [
    ("default", []), ("another seed", ["--seed=2"]),
    ("rope bf16", ["--precision.rope=bf16"]), ("rope fp16", ["--precision.rope=fp16"]),
    ("compute fp32", ["--precision.compute=fp32"]), ("residual fp32", ["--precision.residual=fp32"]),
    ("master bf16-remainder", ["--precision.master=bf16-remainder"]), ("master bf16", ["--precision.master=bf16"]),
    ("gradient bf16", ["--precision.gradient=bf16"]), ("moments bf16", ["--optim.moments=bf16"]),
    ("matmul fp8-emulated", ["--precision.matmul=fp8-emulated"]),
    ("matmul fp8-emulated, e5m2", ["--precision.matmul=fp8-emulated", "--precision.fp8_gradient=e5m2"]),
    ("matmul fp8-emulated, by row", ["--precision.matmul=fp8-emulated", "--precision.fp8_scaling=row"]),
    ("attention fp8-emulated", ["--precision.attention=fp8-emulated"]),
]


def train(args, choice, settings):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        command = [args.litespark, "train", "configs/5m.toml", "--data.source=text", f"--data.path={args.text}",
                   "--model.vocab_size=256", f"--data.seq_len={args.length}", f"--train.micro_batch={args.batch}",
                   f"--train.steps={args.steps}", f"--schedule.warmup={args.steps // 10}", "--checkpoint.at_end=false",
                   "--meter.timeline_every=0", f"--out={out}", *[f"--{setting}" for setting in args.set], *settings]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if "lr" in row]
    return {"choice": choice, "losses": [row["loss"] for row in steps],
            "rate": statistics.median(row["tokens_per_second"] for row in steps[5:])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--litespark", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--choices", default="", help="comma-separated beginnings of names; all without it")
    parser.add_argument("--set", action="append", default=[], help="further overrides, section.key=value")
    args = parser.parse_args()
    wanted = tuple(args.choices.split(",")) if args.choices else ("",)
    print(f"{'choice':28} {'tokens/s':>9} {'last quarter':>13} {'difference':>11} {'largest':>9}")
    default = None
    for choice, settings in CHOICES:
        if choice != "default" and not choice.startswith(wanted):
            continue
        run = train(args, choice, settings)
        default = default or run
        last = statistics.mean(run["losses"][-args.steps // 4:])
        differences = [a - b for a, b in zip(run["losses"], default["losses"])]
        print(f"{choice:28} {run['rate']:9.0f} {last:13.5f} {statistics.mean(differences):+11.6f} "
              f"{max(map(abs, differences)):9.6f}", flush=True)


if __name__ == "__main__":
    main()
