# SPDX-License-Identifier: Apache-2.0
"""The peer of bench/train_cpu.py: a plain PyTorch Llama that trains on the CPU, a few steps at each request.

Reads lines `N` from standard input, runs N steps, prints one JSON line a step and a line `{"ready": true}` when it waits.
What a user of PyTorch would write: fused attention, fused AdamW (f32 master weights, no decay on norms), clipping, autocast for
bf16, fresh random tokens. With one input token a position and shifted labels, as Litespark's synthetic source has."""
import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from train_shapes import CPU_CASES, SHAPES


def resident_bytes():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))


def rotate(x, cosines, sines):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x.float(), self.weight.shape, self.weight, 1e-5)


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        hidden, ffn = shape["hidden_size"], shape["intermediate_size"]
        self.heads, self.kv_heads = shape["num_attention_heads"], shape["num_key_value_heads"]
        self.dim = hidden // self.heads
        self.attention_norm, self.mlp_norm = Norm(hidden), Norm(hidden)
        self.qkv = nn.Linear(hidden, (self.heads + 2 * self.kv_heads) * self.dim, bias=False)
        self.output = nn.Linear(hidden, hidden, bias=False)
        self.gate_up = nn.Linear(hidden, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x, cosines, sines):
        batch, length, hidden = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, length, -1, self.dim).transpose(1, 2)
        q, k, v = qkv.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        q, k = rotate(q, cosines, sines), rotate(k, cosines, sines)
        if self.heads != self.kv_heads:
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, dim=1) for t in (k, v))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(attended.transpose(1, 2).reshape(batch, length, hidden))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, shape, length):
        super().__init__()
        hidden, dim = shape["hidden_size"], shape["hidden_size"] // shape["num_attention_heads"]
        self.embedding = nn.Embedding(shape["vocab_size"], hidden)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape["num_hidden_layers"]))
        self.norm = Norm(hidden)
        self.head = nn.Linear(hidden, shape["vocab_size"], bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        self.head.weight = self.embedding.weight
        angles = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())

    def forward(self, ids, labels):
        x = self.embedding(ids)
        dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else x.dtype
        cosines, sines = self.cosines.to(dtype), self.sines.to(dtype)
        for block in self.blocks:
            x = block(x, cosines, sines)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CPU_CASES, required=True)
    parser.add_argument("--compute", choices=("f32", "bf16"), required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--threads", type=int, required=True)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    # Libraries are loaded on first use: part of start-up, not of training.
    (torch.randn(64, 64, requires_grad=True) @ torch.randn(64, 64)).sum().backward()
    print(json.dumps({"torch": torch.__version__, "start_bytes": resident_bytes()}), flush=True)

    case = CPU_CASES[args.case]
    shape = SHAPES[case["shape"]]
    model = Llama(shape, case["length"])
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), fused=True)
    forward = torch.compile(model) if args.compile else model
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            start = time.perf_counter()
            tokens = torch.randint(0, shape["vocab_size"], (case["batch"], case["length"] + 1))
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.compute == "bf16"):
                loss = forward(tokens[:, :-1], tokens[:, 1:])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            print(json.dumps({"seconds": time.perf_counter() - start, "loss": loss.item()}), flush=True)
        print(json.dumps({"ready": True}), flush=True)


if __name__ == "__main__":
    main()
