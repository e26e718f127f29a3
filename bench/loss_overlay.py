# SPDX-License-Identifier: Apache-2.0
"""Trains the same Llama on the same tokens in Litespark and in PyTorch and lays their loss curves over each other.

    python3 bench/loss_overlay.py --litespark build/cuda-only/cli/litespark --shards runs/quickstart-data/train --out overlay.json

transformers makes the weights; both sides start from that folder. Litespark reads shards in stream packing; its sample order
is computed here a second time from the definition (Philox4x32-10, six Feistel rounds, cycle walking). The learning rates are
those in Litespark's metrics. PyTorch keeps fp32 masters and computes under BF16 autocast; a second PyTorch run, whose only
difference is compute in fp32, shows how far rounding alone drives two runs apart. Writes a JSON file and, where matplotlib is
present, an SVG beside it."""
import argparse
import datetime
import json
import pathlib
import shutil
import statistics
import subprocess

import numpy
import torch
from transformers import LlamaConfig, LlamaForCausalLM

SHAPE = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12,
         "num_key_value_heads": 12, "tie_word_embeddings": False, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
ADAMW = {"betas": (0.9, 0.95), "eps": 1e-8}
WEIGHT_DECAY = 0.1
MASK32 = 0xFFFFFFFF
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        product0, product1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(product1 >> 32) ^ counter[1] ^ key[0], product1 & MASK32, (product0 >> 32) ^ counter[3] ^ key[1],
                   product0 & MASK32]
        key = [(key[0] + 0x9E3779B9) & MASK32, (key[1] + 0xBB67AE85) & MASK32]
    return counter


def permuted(position, size, seed, stream):
    half = 1
    while 1 << (2 * half) < size:
        half += 1
    mask = (1 << half) - 1
    value = position
    while True:
        left, right = value >> half, value & mask
        for turn in range(6):
            word = philox((right & MASK32, right >> 32, stream & MASK32, turn),
                          (seed & MASK32, (seed >> 32) ^ (stream >> 32)))[0]
            left, right = right, (left ^ word) & mask
        value = (left << half) | right
        if value < size:
            return value


class Windows:
    """The token windows of each step, as stream packing orders them."""

    def __init__(self, folder, seed, batch, length):
        names = sorted(pathlib.Path(folder).glob("shard-*.tokens"))
        self.description = json.loads((pathlib.Path(folder) / "shards.json").read_text())
        kind = {2: "<u2", 4: "<u4"}[self.description["token_bytes"]]
        self.tokens = numpy.concatenate([numpy.fromfile(name, dtype=kind) for name in names]).astype(numpy.int64)
        self.seed, self.batch, self.length = seed, batch, length
        self.count = (len(self.tokens) - 1) // length

    def step(self, index):
        rows = []
        for sample in range(index * self.batch, (index + 1) * self.batch):
            window = permuted(sample % self.count, self.count, self.seed, sample // self.count)
            rows.append(self.tokens[window * self.length:(window + 1) * self.length + 1])
        ids = torch.from_numpy(numpy.stack(rows)).to(DEVICE)
        return ids[:, :-1], ids[:, 1:]


def train_litespark(args, folder):
    out = pathlib.Path(args.work) / "litespark"
    overrides = ["--model.init=folder", f"--model.path={folder}", "--data.source=shards", f"--data.path={args.shards}",
                 "--data.packing=stream", f"--data.seq_len={args.length}", f"--train.micro_batch={args.batch}",
                 f"--train.steps={args.steps}", f"--schedule.warmup={args.steps // 10}", f"--seed={args.seed}",
                 f"--optim.lr={args.lr}", "--precision.residual=fp32", "--checkpoint.at_end=false", f"--out={out}", *args.set]
    subprocess.run([args.litespark, "train", "configs/llama-160m.toml", *overrides], check=True,
                   stdout=subprocess.DEVNULL)
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if "lr" in row]


def train_pytorch(folder, windows, rates, autocast):
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").to(DEVICE)
    model.config.use_cache = False
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": plain, "weight_decay": 0.0}],
                                  lr=rates[0], fused=True, **ADAMW)
    losses = []
    for step, rate in enumerate(rates):
        ids, labels = windows.step(step)
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=autocast):
            logits = model(input_ids=ids).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses


def plot(path, result):
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("svg")
    from matplotlib import pyplot
    figure, (upper, lower) = pyplot.subplots(2, 1, figsize=(8, 6), sharex=True, height_ratios=(3, 1))
    steps = range(1, len(result["litespark"]) + 1)
    upper.plot(steps, result["pytorch_autocast"], label="PyTorch, autocast", linewidth=3, alpha=0.4)
    upper.plot(steps, result["litespark"], label="Litespark", linewidth=1)
    upper.set_ylabel("loss, nats a token")
    upper.legend()
    difference = [a - b for a, b in zip(result["litespark"], result["pytorch_autocast"])]
    rounding = [a - b for a, b in zip(result["pytorch_fp32"], result["pytorch_autocast"])]
    lower.plot(steps, rounding, label="PyTorch fp32 - autocast", linewidth=1, alpha=0.6)
    lower.plot(steps, difference, label="Litespark - autocast", linewidth=1)
    lower.set_xlabel("step")
    lower.legend()
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--litespark", required=True)
    parser.add_argument("--shards", required=True, help="folder of tokenised shards")
    parser.add_argument("--out", required=True, help="JSON file; the plot lands beside it")
    parser.add_argument("--work", default="build/overlay")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="further overrides for Litespark, --section.key=value")
    args = parser.parse_args()

    shutil.rmtree(args.work, ignore_errors=True)
    windows = Windows(args.shards, args.seed, args.batch, args.length)
    vocab_size = windows.description["vocab_size"]
    torch.manual_seed(args.seed)
    folder = pathlib.Path(args.work) / "start"
    LlamaForCausalLM(LlamaConfig(**SHAPE, vocab_size=vocab_size, max_position_embeddings=args.length)).save_pretrained(folder)

    rows = train_litespark(args, folder)
    rates = [row["lr"] for row in rows]
    result = {"date": datetime.date.today().isoformat(), "device": torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU", "torch": torch.__version__,
              "shape": {**SHAPE, "vocab_size": vocab_size}, "tokens_per_step": args.batch * args.length, "steps": len(rows),
              "command": "bench/loss_overlay.py --shards runs/quickstart-data/train " + " ".join(args.set),
              "litespark": [row["loss"] for row in rows],
              "pytorch_autocast": train_pytorch(folder, windows, rates, autocast=True),
              "pytorch_fp32": train_pytorch(folder, windows, rates, autocast=False)}
    gaps = [abs(a - b) for a, b in zip(result["litespark"], result["pytorch_autocast"])]
    noise = [abs(a - b) for a, b in zip(result["pytorch_fp32"], result["pytorch_autocast"])]
    result["mean_difference"], result["largest_difference"] = statistics.mean(gaps), max(gaps)
    result["rounding_mean"], result["rounding_largest"] = statistics.mean(noise), max(noise)
    out = pathlib.Path(args.out)
    out.write_text(json.dumps(result, indent=1) + "\n")
    plot(out.with_suffix(".svg"), result)
    print(f"{len(rows)} steps: last losses {result['litespark'][-1]:.4f} Litespark, {result['pytorch_autocast'][-1]:.4f} "
          f"autocast, {result['pytorch_fp32'][-1]:.4f} fp32; difference to autocast mean {result['mean_difference']:.5f}, "
          f"largest {result['largest_difference']:.5f}; fp32 to autocast mean {result['rounding_mean']:.5f}, "
          f"largest {result['rounding_largest']:.5f}")


if __name__ == "__main__":
    main()
