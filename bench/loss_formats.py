# SPDX-License-Identifier: Apache-2.0
"""Losses of the same training in several number formats, beside what another seed changes.

    python3 bench/loss_formats.py --litespark build/cuda-only/cli/litespark --data runs/quickstart-data --out formats.json

The 160M shape on real text; each format trains once a seed, which draws weights and order of the data, so that two formats
under one seed see the same tokens from the same weights. Reported of a format: the mean difference of its losses to the first
format's under the same seed, and of the means over the last hundred steps; beside the spread of those means over the seeds of
the first format. Writes a JSON file and, where matplotlib is present, an SVG beside it. A run that is there already is taken
as it is, so that a call that was cut off goes on. With --seconds no seed is begun that would not end in time.

Attention on 8-bit floats is for heads of 128, of which the 160M shape has none by itself:

    python3 bench/loss_formats.py ... --formats bf16,attention-fp8 --heads 6 --seconds 290
"""
import argparse
import datetime
import itertools
import json
import pathlib
import statistics
import subprocess
import time

FORMATS = {
    "bf16": [],
    "fp8": ["--precision.matmul=fp8"],
    "fp8 e5m2 gradients": ["--precision.matmul=fp8", "--precision.fp8_gradient=e5m2"],
    "fp8 by row": ["--precision.matmul=fp8", "--precision.fp8_scaling=row"],
    "attention-fp8": ["--precision.attention=fp8"],
    "fp8-and-attention-fp8": ["--precision.matmul=fp8", "--precision.attention=fp8"],
    "rope-bf16": ["--precision.rope=bf16"],
    "rope-fp16": ["--precision.rope=fp16"],
    "residual-fp32": ["--precision.residual=fp32"],
    "gradient-bf16": ["--precision.gradient=bf16"],
    "moments-bf16": ["--optim.moments=bf16"],
    "master-bf16-remainder": ["--precision.master=bf16-remainder"],
    "master-bf16": ["--precision.master=bf16"],
}
LAST = 100


def rows_of(folder):
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def train(args, name, seed):
    out = pathlib.Path(args.work) / f"{name.replace(' ', '-')}-{seed}"
    data = pathlib.Path(args.data)
    vocab = json.loads((data / "train" / "shards.json").read_text())["vocab_size"]
    command = [args.litespark, "train", "configs/llama-160m.toml", f"--model.vocab_size={vocab}", "--data.source=shards",
               f"--data.path={data / 'train'}", f"--data.eval_path={data / 'eval'}", "--data.packing=stream",
               f"--data.seq_len={args.length}", f"--train.micro_batch={args.batch}", f"--train.steps={args.steps}",
               f"--train.eval_every={args.steps}", "--train.eval_batches=0", f"--schedule.warmup={args.steps // 10}",
               f"--seed={seed}", f"--optim.lr={args.lr}", "--checkpoint.at_end=false", f"--out={out}", *FORMATS[name], *args.set]
    if args.heads:
        command += [f"--model.num_attention_heads={args.heads}", f"--model.num_key_value_heads={args.heads}"]
    rows = rows_of(out)
    if not any("eval_loss" in row for row in rows):
        subprocess.run(["rm", "-rf", str(out)], check=True)
        start = time.time()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        print(f"{name}, seed {seed}: {time.time() - start:.0f} s", flush=True)
        rows = rows_of(out)
    steps = [row for row in rows if "lr" in row]
    return {"command": " ".join(map(str, command)), "losses": [row["loss"] for row in steps],
            "held_out": [row["eval_loss"] for row in rows if "eval_loss" in row][-1],
            "gradients_flushed": [row["fp8_gradients_flushed"] for row in steps if "fp8_gradients_flushed" in row][-1:],
            "overflows": sum(row.get("fp8_overflows", 0) for row in steps), "skipped": sum(row["skipped"] for row in steps)}


def compare(runs, names, seeds):
    """Differences of each format to the first, and what seeds alone do to the first."""
    last = {name: [statistics.mean(runs[name][seed]["losses"][-LAST:]) for seed in seeds] for name in names}
    held_out = {name: [runs[name][seed]["held_out"] for seed in seeds] for name in names}
    first = names[0]

    def pairs(values):
        return [abs(a - b) for a, b in itertools.combinations(values, 2)]
    result = {"seeds": {"count": len(seeds), "last": last[first], "held_out": held_out[first]}}
    if len(seeds) > 1:
        result["seeds"] |= {"last_mean_difference": statistics.mean(pairs(last[first])),
                            "held_out_mean_difference": statistics.mean(pairs(held_out[first]))}
    for name in names[1:]:
        steps = [a - b for seed in seeds for a, b in zip(runs[name][seed]["losses"], runs[first][seed]["losses"])]
        result[name] = {"mean_difference": statistics.mean(steps), "mean_absolute_difference": statistics.mean(map(abs, steps)),
                        "last_differences": [a - b for a, b in zip(last[name], last[first])],
                        "held_out_differences": [a - b for a, b in zip(held_out[name], held_out[first])]}
    return result


def plot(path, runs, names, seeds):
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("svg")
    from matplotlib import pyplot
    figure, (upper, lower) = pyplot.subplots(2, 1, figsize=(8, 6), sharex=True, height_ratios=(2, 1))
    for name in names:
        upper.plot(range(1, len(runs[name][seeds[0]]["losses"]) + 1), runs[name][seeds[0]]["losses"], label=name, linewidth=1)
    for name in names[1:]:
        differences = [statistics.mean(runs[name][seed]["losses"][i] - runs[names[0]][seed]["losses"][i] for seed in seeds)
                       for i in range(len(runs[name][seeds[0]]["losses"]))]
        lower.plot(range(1, len(differences) + 1), differences, label=f"{name} - {names[0]}", linewidth=1)
    upper.set_ylabel("loss, nats a token")
    lower.set_xlabel("step")
    upper.legend()
    lower.legend()
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--litespark", required=True)
    parser.add_argument("--data", required=True, help="folder with train/ and eval/ shards")
    parser.add_argument("--out", required=True, help="JSON file; the plot lands beside it")
    parser.add_argument("--work", default="build/loss_formats")
    parser.add_argument("--formats", default="bf16,fp8", help=f"comma-separated, the first is compared with: {', '.join(FORMATS)}")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--heads", type=int, help="attention heads, of queries and of keys: 6 are heads of 128")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for all runs together")
    parser.add_argument("--set", action="append", default=[], help="further overrides, --section.key=value")
    args = parser.parse_args()
    names, seeds = args.formats.split(","), [int(seed) for seed in args.seeds.split(",")]
    runs = {name: {} for name in names}
    out = pathlib.Path(args.out)
    start = time.time()
    longest = 0
    for count, seed in enumerate(seeds, 1):
        before = time.time()
        if before - start + longest > args.seconds:
            print(f"no time for seed {seed}", flush=True)
            seeds = seeds[:count - 1]
            break
        for name in names:
            runs[name][seed] = train(args, name, seed)
        longest = max(longest, time.time() - before)
        # After every seed, so that a call that is cut off has something to show.
        comparison = compare(runs, names, seeds[:count])
        report = {"date": datetime.date.today().isoformat(), "steps": args.steps, "tokens_per_step": args.batch * args.length,
                  "comparison": comparison, "runs": runs}
        out.write_text(json.dumps(report, indent=1) + "\n")
        print(json.dumps(comparison), flush=True)
    plot(out.with_suffix(".svg"), runs, names, seeds)


if __name__ == "__main__":
    main()
