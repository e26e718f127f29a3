# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy 14 over src/ and cli/ of one or more build folders: `python3 tests/tidiness/clang_tidy.py BUILD ...`

A translation unit that passed is remembered in its build folder by a hash of everything that it read, so that a second run
looks at changed files alone. Exit status: 0 clean, 1 findings, 77 skipped because there is no clang-tidy 14.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WANTED_MAJOR = "14"
SKIPPED = 77


def find_clang_tidy():
    for name in (f"clang-tidy-{WANTED_MAJOR}", "clang-tidy"):
        path = shutil.which(name)
        if path and re.search(rf"version {WANTED_MAJOR}\.", subprocess.run([path, "--version"], capture_output=True,
                                                                         text=True, check=True).stdout):
            return path
    return None


def own_dependencies(build):
    """object file -> files of this repository that it was compiled from, as ninja recorded them."""
    listing = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=False).stdout
    dependencies, current = {}, None
    for line in listing.splitlines():
        if line.startswith("    "):
            path = (build / line.strip()).resolve()
            if path.is_relative_to(ROOT) and current:
                dependencies[current].append(path)
        elif ": #deps" in line:
            current = line.split(":")[0]
            dependencies[current] = []
    return dependencies


def units(build):
    """(source, stamp) of each translation unit of src/ and cli/ in the compilation database."""
    dependencies = own_dependencies(build)
    configuration = (ROOT / ".clang-tidy").read_bytes()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        if source.suffix != ".cpp" or not any(source.is_relative_to(ROOT / top) for top in ("src", "cli")):
            continue
        digest = hashlib.sha256(configuration + entry["command"].encode())
        for path in sorted({source, *dependencies.get(entry.get("output", ""), ())}):
            digest.update(path.read_bytes() if path.exists() else b"gone")
        yield source, build / "clang-tidy-passed" / digest.hexdigest()


def check(program, build, source, stamp):
    result = subprocess.run([program, "-p", build, "--quiet", "--extra-arg=-Wno-unknown-warning-option", source], capture_output=True, text=True, check=False)
    if result.returncode == 0:
        stamp.touch()
        return ""
    return result.stdout.replace(f"{ROOT}/", "") or result.stderr


def main():
    program = find_clang_tidy()
    if program is None:
        print(f"skipped: no clang-tidy {WANTED_MAJOR} here")
        return SKIPPED
    jobs, seen = [], set()
    for build in map(pathlib.Path, sys.argv[1:]):
        if (build / "compile_commands.json").exists():
            (build / "clang-tidy-passed").mkdir(exist_ok=True)
            for source, stamp in units(build.resolve()):
                if source not in seen and not stamp.exists():
                    jobs.append((build, source, stamp))
                seen.add(source)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = [report for report in pool.map(lambda job: check(program, *job), jobs) if report]
    findings = sorted({line for report in reports for line in report.splitlines() if re.search(r": (error|warning):", line)})
    print("\n".join(findings or reports))
    print(f"clang-tidy: {len(seen)} translation units, {len(jobs)} checked, {len(reports)} with findings")
    return 1 if reports or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
