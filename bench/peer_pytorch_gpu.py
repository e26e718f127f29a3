# SPDX-License-Identifier: Apache-2.0
"""One PyTorch training run of a Llama shape on one GPU; prints one JSON line a step with the time and the energy counter.

The peer of bench/train_gpu.py: transformers' Llama with SDPA, fused AdamW, clipping, fresh random tokens. `--mode autocast` keeps
fp32 master weights; `--mode bf16` trains pure bf16 weights, which is less than what Litespark does."""
import argparse
import json
import time

import pynvml
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from train_shapes import SHAPES


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=SHAPES, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--mode", choices=("autocast", "bf16"), required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", type=int, default=16)
    args = parser.parse_args()

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    shape = dict(SHAPES[args.model])
    config = LlamaConfig(**shape, max_position_embeddings=args.length, rope_theta=500000.0, attn_implementation="sdpa",
                         use_cache=False)
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).cuda()
    if args.mode == "bf16":
        model = model.bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    forward = torch.compile(model) if args.compile else model
    for step in range(args.steps):
        ids = torch.randint(0, config.vocab_size, (args.batch, args.length), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.mode == "autocast"):
            loss = forward(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = float(loss)  # waits for the step, as reading our metrics does
        print(json.dumps({"step": step + 1, "seconds": time.perf_counter(), "loss": value,
                          "joules": pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000,
                          "sm_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
                          "peak_gib": torch.cuda.max_memory_allocated() / 2**30}), flush=True)


if __name__ == "__main__":
    main()
