# SPDX-License-Identifier: Apache-2.0
"""PyTorch DDP on the GPUs of one host, by torchrun; rank 0 prints one JSON line a case.

The peer of bench/cuda_ranks.cpp: transformers' Llama with SDPA, gradients in buckets that are views, fused AdamW, clipping.
`autocast` keeps fp32 master weights on every rank; `bf16` trains pure bf16 weights, which is less than what Litespark does."""
import argparse
import json
import statistics
import time

import pynvml
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import LlamaConfig, LlamaForCausalLM

from train_shapes import SHAPES

WARM_STEPS = 3


def joules(handles):
    return sum(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) for handle in handles) / 1000


def train(case, args, handles):
    model_name, batch, mode = case.split(":")
    config = LlamaConfig(**SHAPES[model_name], max_position_embeddings=args.length, rope_theta=500000.0,
                         attn_implementation="sdpa", use_cache=False)
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).cuda()
    if mode == "bf16":
        model = model.bfloat16()
    model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    seconds = []
    for step in range(WARM_STEPS + args.steps):
        if step == WARM_STEPS:
            dist.barrier()
            torch.cuda.synchronize()
            energy_before = joules(handles)
        begin = time.perf_counter()
        ids = torch.randint(0, config.vocab_size, (int(batch), args.length), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=mode == "autocast"):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        torch.cuda.synchronize()
        if step >= WARM_STEPS:
            seconds.append(time.perf_counter() - begin)
    dist.barrier()
    spent = joules(handles) - energy_before
    tokens = int(batch) * args.length * dist.get_world_size()
    if dist.get_rank() == 0:
        median = statistics.median(seconds)
        print(json.dumps({"case": case, "ranks": dist.get_world_size(), "tokens_per_second": tokens / median,
                          "step_ms": median * 1000, "spread_ms": [min(seconds) * 1000, max(seconds) * 1000],
                          "joules_per_1000_tokens": spent / (tokens * args.steps) * 1000,
                          "watts": spent / sum(seconds), "peak_gib": torch.cuda.max_memory_allocated() / 2**30}),
              flush=True)
    del model, optimizer
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="+", metavar="MODEL:BATCH:autocast|bf16")
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(dist.get_world_size())]
    for case in args.cases:
        train(case, args, handles)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
