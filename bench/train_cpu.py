# SPDX-License-Identifier: Apache-2.0
"""CPU training throughput and memory: Litespark and PyTorch, interleaved, in one call.

    python3 bench/train_cpu.py --litespark build/release/cli/litespark --case 5m --compute bf16 --out results.json

All sides are started at first and sleep between their turns: a round gives each some steps, the next round in another order.
PyTorch (the version of tools/requirements.txt, in an environment that this script makes under build/) runs eager and compiled,
each as it comes and with a malloc that keeps its memory. A step during which threads waited for a core that something else had
(run delay of /proc/PID/task/*/schedstat above a share of threads x step) is set aside, counted and taken again."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import sys
import time

from train_shapes import CONFIGS, CPU_CASES, flops_per_token

ROOT = pathlib.Path(__file__).resolve().parents[1]
KEEPING_MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "200000000000"}
MOST_DELAY = 0.02  # of threads x step
ATTEMPTS = 4  # times the wanted samples
FORMULA = ("tokens/s = tokens a step / median step time of undisturbed steps; share = tokens/s x (6 x matmul parameters with head + "
           "6 L H D T) / the matmul peak that this run measured over its own forward shapes; memory = peak RSS - RSS after start-up")


def peer_python(folder):
    """The interpreter of the environment with PyTorch; makes it on first use."""
    python = folder / "bin" / "python"
    if not python.exists():
        lines = (ROOT / "tools" / "requirements.txt").read_text(encoding="utf-8").splitlines()
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *[line for line in lines if line.startswith("torch==")]], check=True)
    return python


def status_bytes(pid, key):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def run_delay_seconds(pid):
    """Time that the process's threads were ready to run and had no core."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text(encoding="ascii").split()[1])
    return total / 1e9


class Side:
    """A training process that sleeps between its turns."""

    def __init__(self, command, threads, environment=None, cwd=None):
        self.threads = threads
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env={**os.environ, **(environment or {})}, cwd=cwd)
        self.seconds, self.set_aside, self.loss = [], [], None

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            raise RuntimeError(f"{self.process.args} ended: {self.process.wait()}")
        return text

    def keep(self, seconds, delay):
        share = delay / (seconds * self.threads)
        if share > MOST_DELAY:
            self.set_aside.append({"seconds": seconds, "waited_for_a_core": share})
            return 0
        self.seconds.append(seconds)
        return 1

    def result(self, tokens):
        result = {"start_bytes": self.start_bytes, "peak_bytes": status_bytes(self.process.pid, "VmHWM"),
                  "samples": len(self.seconds), "seconds": self.seconds, "set_aside": self.set_aside, "loss": self.loss}
        result["memory_bytes"] = result["peak_bytes"] - result["start_bytes"]
        if self.seconds:
            result["tokens_per_second"] = tokens / statistics.median(self.seconds)
            result["spread"] = [tokens / max(self.seconds), tokens / min(self.seconds)]
        return result

    def end(self):
        self.process.kill()
        self.process.wait()


class Litespark(Side):
    """Stopped and continued by signals; the step in which that happens does not count."""

    def __init__(self, binary, case, compute, threads, folder):
        config = str(ROOT / CONFIGS[case])
        self.start_bytes = self.peak_of([binary, "plan", config])
        precision = {"f32": "fp32", "bf16": "bf16"}[compute]
        self.command = ["litespark", "train", CONFIGS[case], "--train.steps=100000", "--train.log_every=1", f"--device.threads={threads}",
                        f"--precision.compute={precision}", "--checkpoint.at_end=false"]
        self.peak_flops = None
        for _ in range(ATTEMPTS):
            subprocess.run(["rm", "-rf", folder], check=True)
            start = time.perf_counter()
            super().__init__([binary, "train", config, *self.command[3:], f"--out={folder}"], threads)
            for _ in range(2):
                self.step()
            # The matmul peak was measured in there: it counts only when nothing else had a core.
            waited = run_delay_seconds(self.process.pid) / ((time.perf_counter() - start) * threads)
            if waited <= MOST_DELAY:
                break
            print(f"the start waited for a core for {100 * waited:.0f} % of its time: again", flush=True)
            self.end()
        else:
            raise RuntimeError("no start without waiting for a core: the machine is not quiet")
        self.process.send_signal(signal.SIGSTOP)

    @staticmethod
    def peak_of(command):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            raise RuntimeError(f"{command} failed")
        return usage.ru_maxrss * 1024

    def step(self):
        while True:
            text = self.line()
            peak = re.search(r"peak ([0-9.]+) TFLOP/s", text)
            if peak:
                self.peak_flops = float(peak[1]) * 1e12
            found = re.match(r"\s*step \d+/\d+\s+loss ([0-9.naif+-]+)", text)
            if found:
                self.loss = float(found[1])
                return time.perf_counter()

    def turn(self, wanted):
        self.process.send_signal(signal.SIGCONT)
        before, delay = self.step(), run_delay_seconds(self.process.pid)
        taken = 0
        for _ in range(wanted * ATTEMPTS):
            now, delay_now = self.step(), run_delay_seconds(self.process.pid)
            taken += self.keep(now - before, delay_now - delay)
            before, delay = now, delay_now
            if taken == wanted:
                break
        self.process.send_signal(signal.SIGSTOP)


class Pytorch(Side):
    def __init__(self, python, case, compute, threads, variant):
        script = ROOT / "bench" / "peer_pytorch_cpu.py"
        options = [f"--case={case}", f"--compute={compute}", f"--threads={threads}"]
        if "compile" in variant:
            options.append("--compile")
        self.command = ["python3", "bench/peer_pytorch_cpu.py", *options]
        environment = {"TORCHINDUCTOR_CACHE_DIR": str(ROOT / "build" / "inductor")}
        if "malloc" in variant:
            environment.update(KEEPING_MALLOC)
            self.command = [f"{key}={value}" for key, value in KEEPING_MALLOC.items()] + self.command
        super().__init__([str(python), str(script), *options], threads, environment)
        hello = self.message("torch")
        self.torch, self.start_bytes = hello["torch"], hello["start_bytes"]
        self.message("ready")
        self.steps(2)

    def message(self, key):
        while True:
            text = self.line()
            if text.startswith("{"):
                message = json.loads(text)
                if key in message:
                    return message
            else:
                print(text, end="", file=sys.stderr)

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        delay = run_delay_seconds(self.process.pid)
        taken = []
        for _ in range(count):
            message = self.message("seconds")
            delay_now = run_delay_seconds(self.process.pid)
            taken.append((message["seconds"], delay_now - delay))
            self.loss, delay = message["loss"], delay_now
        self.message("ready")
        return taken

    def turn(self, wanted):
        taken = 0
        for _ in range(ATTEMPTS):
            taken += sum(self.keep(*sample) for sample in self.steps(wanted - taken))
            if taken >= wanted:
                break


def machine():
    info = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    field = lambda name: re.search(rf"^{name}\s*:\s*(.*)$", info, re.MULTILINE)[1]
    flags = field("flags").split()
    library = subprocess.run("ldconfig -p | grep -o 'libdnnl.so.* => .*' | head -1 | sed 's/.*=> //' | xargs -r readlink -f", shell=True,
                             capture_output=True, text=True).stdout.strip()
    return {"cpu": field("model name"), "family_model": [int(field("cpu family")), int(field("model"))],
            "cores": len(os.sched_getaffinity(0)), "mhz": [float(x) for x in re.findall(r"cpu MHz\s*:\s*([0-9.]+)", info)],
            "avx": sorted(flag for flag in flags if flag.startswith(("avx", "amx"))), "virtual": "hypervisor" in flags,
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1), "kernel": platform.release(),
            "system": platform.freedesktop_os_release()["PRETTY_NAME"], "onednn": os.path.basename(library)}


def show(name, result, best=None):
    if "tokens_per_second" not in result:
        return f"{name:24} no undisturbed step ({len(result['set_aside'])} set aside)"
    ratio = f"  Litespark {best / result['tokens_per_second']:.2f} x" if best else ""
    share = f"  {result['share_of_matmul_peak'] * 100:.1f} % of the matmul peak" if "share_of_matmul_peak" in result else ""
    return (f"{name:24} {result['tokens_per_second']:8.0f} tokens/s  ({result['spread'][0]:.0f} .. {result['spread'][1]:.0f}, "
            f"{result['samples']} steps, {len(result['set_aside'])} set aside)  {result['memory_bytes'] / 2**20:6.0f} MiB{share}{ratio}")


def measure(args):
    case = CPU_CASES[args.case]
    tokens = case["batch"] * case["length"]
    folder = ROOT / "build" / "bench_cpu_run"
    sides = {"litespark": Litespark(args.litespark, args.case, args.compute, args.threads, str(folder))}
    try:
        for variant in filter(None, args.peers.split(",")):
            python = peer_python(ROOT / "build" / "peer-venv")
            sides["pytorch " + variant] = Pytorch(python, args.case, args.compute, args.threads, variant)
            print(f"{variant} is warm", flush=True)
        for number in range(args.rounds):
            order = list(sides)
            for name in order[number % len(order):] + order[:number % len(order)]:
                sides[name].turn(args.steps if name == "litespark" else args.peer_steps)
        results = {name: {"command": " ".join(side.command), **side.result(tokens)} for name, side in sides.items()}
        versions = {side.torch for side in sides.values() if isinstance(side, Pytorch)}
        ours = results["litespark"]
        ours["matmul_peak_flops"] = sides["litespark"].peak_flops
        if "tokens_per_second" in ours:
            ours["share_of_matmul_peak"] = ours["tokens_per_second"] * flops_per_token(case["shape"], case["length"]) / ours["matmul_peak_flops"]
        return results, sorted(versions)
    finally:
        for side in sides.values():
            side.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--litespark", required=True)
    parser.add_argument("--out", required=True, help="JSON file; a result of the same case and compute type in it is replaced")
    parser.add_argument("--case", choices=CPU_CASES, required=True)
    parser.add_argument("--compute", choices=("f32", "bf16"), required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="of Litespark a round")
    parser.add_argument("--peer-steps", type=int, default=3, help="of each peer a round")
    parser.add_argument("--peers", default="eager,compile,eager+malloc,compile+malloc", help="comma-separated; empty: none")
    args = parser.parse_args()
    results, versions = measure(args)
    rate = results["litespark"].get("tokens_per_second")
    for name, result in results.items():
        print(show(name, result, rate if name != "litespark" else None), flush=True)
    out = pathlib.Path(args.out)
    report = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    report.update({"date": datetime.date.today().isoformat(), "machine": machine(), "torch": versions or report.get("torch", []),
                   "formula": FORMULA})
    command = (f"python3 bench/train_cpu.py --litespark build/release/cli/litespark --case {args.case} --compute {args.compute} "
               f"--threads {args.threads} --rounds {args.rounds} --steps {args.steps} --peer-steps {args.peer_steps} --peers {args.peers} "
               f"--out bench/results/{out.name}")
    report.setdefault("cases", {})[f"{args.case} {args.compute}"] = {"command": command, **results}
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
