# SPDX-License-Identifier: Apache-2.0
"""Where one training step's GPU time goes, by kernel: runs litespark under Nsight Compute with the one metric that needs no
replay and sums the kernels between the last two optimizer updates.

    python3 bench/kernel_times.py build/cuda-only/cli/litespark train RUN.toml --train.steps=3 ...

Every kernel runs alone under the profiler, so the sum leaves out gaps and overlap, and clocks are those of a cool part."""
import csv
import io
import re
import subprocess
import sys
from collections import defaultdict


def main():
    command = ["ncu", "--metrics", "gpu__time_duration.sum", "--clock-control", "none", "--csv", "--print-units", "base",
               "--graph-profiling", "node", *sys.argv[1:], "--out=build/kernel_times", "--checkpoint.at_end=false"]
    subprocess.run(["rm", "-rf", "build/kernel_times"], check=True)
    text = subprocess.run(command, capture_output=True, text=True).stdout
    start = text.find('"ID"')
    if start < 0:
        sys.exit(f"no table from ncu:\n{text[-2000:]}")
    rows = [(row["Kernel Name"], float(row["Metric Value"].replace(",", "")), row["Grid Size"])
            for row in csv.DictReader(io.StringIO(text[start:])) if row.get("Metric Name") == "gpu__time_duration.sum"]
    updates = [i for i, (name, _, _) in enumerate(rows) if "adamw" in name.lower()]
    ends = [i for i in updates if i + 1 not in updates]
    if len(ends) < 2:
        sys.exit(f"{len(rows)} kernels, {len(ends)} optimizer updates: run three steps or more")
    step = rows[ends[-2] + 1:ends[-1] + 1]
    total = sum(ns for _, ns, _ in step)
    groups = defaultdict(list)
    for name, ns, grid in step:
        groups[re.sub(r"\(.*", "", name)[:90], grid].append(ns)
    print(f"{len(step)} kernels, {total / 1e6:.2f} ms in all")
    for (name, grid), times in sorted(groups.items(), key=lambda item: -sum(item[1]))[:45]:
        print(f"{sum(times) / 1e6:8.3f} ms {sum(times) / total:6.1%} {len(times):4} x {sum(times) / len(times) / 1e3:9.1f} us  "
              f"{grid:18} {name}")


main()
