# SPDX-License-Identifier: Apache-2.0
"""cuDNN's causal attention through PyTorch on one GPU: time and TFLOP/s of forward and backward, causal FLOPs counted once.

    python3 bench/peer_pytorch_attention.py B:T:H:K:D...

PyTorch's cuDNN backward adds dQ in free order. FLOPs: 4 B H D T^2 / 2 forward, 2.5 times that backward."""
import statistics
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def median_ms(work, rounds):
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def measure(batch, length, heads, kv_heads, head_dim):
    def random(count):
        return torch.randn(batch, count, length, head_dim, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    query, key, value = random(heads), random(kv_heads), random(kv_heads)
    rounds = 3 if length > 32768 else 15

    def forward():
        return scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=heads != kv_heads)

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        output = forward()
        gradient = torch.randn_like(output)
        forward_ms = median_ms(forward, rounds)
        torch.autograd.grad(output, (query, key, value), gradient, retain_graph=True)
        backward_ms = median_ms(lambda: torch.autograd.grad(output, (query, key, value), gradient, retain_graph=True), rounds)
    flops = 2 * batch * heads * head_dim * length**2
    print(f"cudnn via pytorch {torch.__version__}  B={batch} T={length} H={heads}/{kv_heads} D={head_dim}: "
          f"forward {forward_ms:.3f} ms {flops / forward_ms / 1e9:.0f} TFLOP/s, "
          f"backward {backward_ms:.3f} ms {2.5 * flops / backward_ms / 1e9:.0f} TFLOP/s", flush=True)


for shape in sys.argv[1:]:
    measure(*map(int, shape.split(":")))
