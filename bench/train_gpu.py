# SPDX-License-Identifier: Apache-2.0
"""Training throughput and energy on one GPU: Litespark and PyTorch in the same call, case by case.

    python3 bench/train_gpu.py --litespark build/cuda-only/cli/litespark --out results.json CASE...

A case is MODEL:BATCH:LENGTH[:key=value,...] (keys go to Litespark as overrides), for example 3b:4:4096 or
1b:16:4096:memory.recompute=norm-act. Time and the NVML energy counter are read at every step's line; the first steps are left
out. tokens/s: for Litespark the median of the steps' own figures in metrics.jsonl, for PyTorch batch x length / median time
between lines. Watts are joules of the counter over the time between the first and the last line that count, J per 1,000 tokens
watts over tokens/s: lines of steps that are issued ahead come late at first and early at last, so that joules over the number of
lines would be too few by one step's."""
import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import time

from train_shapes import CONFIGS, flops_per_token

WARM_STEPS = 4
H200_BF16_FLOPS = 989e12


def gpu_state():
    fields = "name,driver_version,clocks.sm,power.draw,temperature.gpu,clocks_event_reasons.active"
    text = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], capture_output=True, text=True)
    return text.stdout.strip().splitlines()[0] if text.stdout else text.stderr.strip()


def summarise(case, rows, peak_gib):
    """rows: (seconds, joules, sm_mhz, loss) at the end of each step, as its line arrived."""
    model, batch, length = case["model"], case["batch"], case["length"]
    used = rows[WARM_STEPS - 1:]
    if len(used) < 3:
        return {"error": f"only {len(rows)} steps"}
    times = [b[0] - a[0] for a, b in zip(used, used[1:])]
    median = statistics.median(times)
    watts = (used[-1][1] - used[0][1]) / (used[-1][0] - used[0][0])
    tokens = batch * length
    rate = tokens / median
    return {"tokens_per_second": rate, "step_ms": median * 1e3, "spread_ms": [min(times) * 1e3, max(times) * 1e3],
            "mfu": rate * flops_per_token(model, length) / H200_BF16_FLOPS,
            "joules_per_1000_tokens": watts / rate * 1e3, "watts": watts, "sm_mhz": statistics.median(r[2] for r in used),
            "peak_gib": peak_gib, "loss": rows[-1][3], "steps": len(rows)}


def run_litespark(binary, case, steps):
    import pynvml
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    command = [binary, "train", CONFIGS[case["model"]], f"--train.micro_batch={case['batch']}",
               f"--data.seq_len={case['length']}", f"--train.steps={steps}", "--train.log_every=1", "--out=build/bench_run",
               "--schedule.warmup=0", "--checkpoint.at_end=false", *case["overrides"]]
    subprocess.run(["rm", "-rf", "build/bench_run"], check=True)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    rows, peak, tail = [], 0.0, []
    for line in process.stdout:
        now = time.perf_counter()
        tail = (tail + [line.rstrip()])[-25:]
        found = re.match(r"\s*step (\d+)/\d+\s+loss ([0-9.naif+-]+)", line)
        if found:
            joules = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000
            rows.append((now, joules, pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM), float(found[2])))
            peak = max(peak, pynvml.nvmlDeviceGetMemoryInfo(handle).used / 2**30)
    if process.wait() != 0:
        print("\n".join(tail), file=sys.stderr)
        return {"command": " ".join(command), "error": f"exit {process.returncode}: {tail[-1] if tail else ''}"}
    result = {"command": " ".join(command), **summarise(case, rows, peak)}
    # A step's line comes when the next step is issued, at times two at once: the program's own clock, read at a step's end on the
    # device, is what counts.
    with open("build/bench_run/metrics.jsonl", encoding="utf-8") as file:
        rates = [row["tokens_per_second"] for row in map(json.loads, file) if "lr" in row][WARM_STEPS:]
    if rates and "error" not in result:
        rate, tokens = statistics.median(rates), case["batch"] * case["length"]
        result |= {"tokens_per_second": rate, "step_ms": tokens / rate * 1e3,
                   "spread_ms": [tokens / max(rates) * 1e3, tokens / min(rates) * 1e3],
                   "mfu": rate * flops_per_token(case["model"], case["length"]) / H200_BF16_FLOPS,
                   "joules_per_1000_tokens": result["watts"] / rate * 1e3}
    return result


def run_peer(case, mode, compiled, steps):
    command = [sys.executable, os.path.join(os.path.dirname(__file__), "peer_pytorch_gpu.py"), f"--model={case['model']}",
               f"--batch={case['batch']}", f"--length={case['length']}", f"--mode={mode}", f"--steps={steps}"]
    if compiled:
        command.append("--compile")
    shown = " ".join(["python3", "bench/peer_pytorch_gpu.py", *command[2:]])  # without paths of one machine
    result = subprocess.run(command, capture_output=True, text=True)
    rows, peak = [], 0.0
    for line in result.stdout.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            rows.append((row["seconds"], row["joules"], row["sm_mhz"], row["loss"]))
            peak = row["peak_gib"]
    if result.returncode != 0:
        return {"command": shown, "error": result.stderr.strip().splitlines()[-1][:300]}
    return {"command": shown, **summarise(case, rows, peak)}


def parse_case(text):
    parts = text.split(":", 3)
    overrides = [f"--{item}" for item in parts[3].split(",")] if len(parts) > 3 else []
    return {"model": parts[0], "batch": int(parts[1]), "length": int(parts[2]), "overrides": overrides}


def show(label, result):
    if "error" in result:
        return f"{label:34} {result['error']}"
    return (f"{label:34} {result['tokens_per_second']:9.0f} tok/s  MFU {result['mfu'] * 100:5.1f} %  "
            f"{result['joules_per_1000_tokens']:6.2f} J/k  {result['watts']:4.0f} W  {result['sm_mhz']:5.0f} MHz  "
            f"{result['peak_gib']:6.1f} GiB  loss {result['loss']:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--litespark", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--peers", default="autocast,bf16", help="comma-separated: autocast, bf16, bf16+compile; empty: none")
    parser.add_argument("cases", nargs="+")
    args = parser.parse_args()
    report = {"date": datetime.date.today().isoformat(), "machine": gpu_state(),
              "formula": "MFU = tokens/s x (6 x matmul parameters with head + 6 L H D T) / 989e12", "cases": []}
    for text in args.cases:
        case = parse_case(text)
        print(f"== {text}   [{gpu_state()}]", flush=True)
        entry = {"case": text, "litespark": run_litespark(args.litespark, case, args.steps), "pytorch": {}}
        print(show("litespark", entry["litespark"]), flush=True)
        for peer in filter(None, args.peers.split(",")):
            mode, _, compiled = peer.partition("+")
            entry["pytorch"][peer] = run_peer(case, mode, compiled == "compile", max(12, args.steps // 2))
            print(show("pytorch " + peer, entry["pytorch"][peer]), flush=True)
        report["cases"].append(entry)
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
