# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy 14 over src/ and cli/ of one or more build folders: `python3 tests/tidiness/clang_tidy.py BUILD ...`

clang-tidy spends most of its time on the standard library's headers, so sources of one folder with the same compiler options
go through it joined to one. Where a joined source has findings, or names that two of its parts define, its halves are
checked, and so on down to single sources: a finding that is reported was found in a source by itself. A source that passed
is remembered in its build folder by a hash of everything that it read, so that a second run looks at changed files alone.
Exit status: 0 clean, 1 findings, 77 skipped because there is no clang-tidy 14.
"""
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import typing

ROOT = pathlib.Path(__file__).resolve().parents[2]
WANTED_MAJOR = "14"
SKIPPED = 77
LARGEST_JOIN = 16
# Parts of a joined source may include what others included: a macro's definition is where readability-duplicate-include
# forgets what came before.
BETWEEN_PARTS = "\n#define LITESPARK_NEXT_PART\n#undef LITESPARK_NEXT_PART\n"


class Unit(typing.NamedTuple):
    source: pathlib.Path
    stamp: pathlib.Path
    options: tuple  # of the compiler, without source and output
    directory: str


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


def options_of(entry):
    """The words of a compiler's call behind its name, but for `-c SOURCE` and `-o OUTPUT`; and OUTPUT."""
    words = shlex.split(entry["command"])
    words = words[next(i for i, word in enumerate(words) if word.startswith("-")):]
    drop = {i + offset for i, word in enumerate(words) if word in ("-c", "-o") for offset in (0, 1)}
    return tuple(word for i, word in enumerate(words) if i not in drop), words[words.index("-o") + 1]


def units(build):
    """Each translation unit of src/ and cli/ in the compilation database."""
    dependencies = own_dependencies(build)
    configuration = (ROOT / ".clang-tidy").read_bytes()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        if source.suffix != ".cpp" or not any(source.is_relative_to(ROOT / top) for top in ("src", "cli")):
            continue
        options, output = options_of(entry)
        digest = hashlib.sha256(configuration + entry["command"].encode())
        for path in sorted({source, *dependencies.get(output, ())}):
            digest.update(path.read_bytes() if path.exists() else b"gone")
        yield Unit(source, build / "clang-tidy-passed" / digest.hexdigest(), options, entry["directory"])


def joins(pending):
    """Groups of units that can be one translation unit: same folder, same options; all about as large."""
    def together(unit):
        return (str(unit.source.parent), unit.options, unit.directory)

    for _, group in itertools.groupby(sorted(pending, key=lambda unit: (together(unit), unit.source)), together):
        group = list(group)
        pieces = -(-len(group) // LARGEST_JOIN)
        yield from (group[len(group) * i // pieces:len(group) * (i + 1) // pieces] for i in range(pieces))


def run(program, source, unit):
    """clang-tidy's result about `source`, compiled as `unit` is."""
    return subprocess.run([program, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", source, "--", *unit.options,
                           f"-iquote{unit.source.parent}", "-Wno-unknown-warning-option"],
                          capture_output=True, text=True, check=False, cwd=unit.directory)


def check(program, group):
    """Reports about the units of `group`; those without one are remembered as clean."""
    if len(group) == 1:
        result = run(program, group[0].source, group[0])
    else:
        with tempfile.TemporaryDirectory() as folder:
            joined = pathlib.Path(folder) / "joined.cpp"
            joined.write_text(BETWEEN_PARTS.join(unit.source.read_text() for unit in group))
            result = run(program, joined, group[0])
    if result.returncode == 0:
        for unit in group:
            unit.stamp.touch()
        return []
    if len(group) == 1:
        return [result.stdout.replace(f"{ROOT}/", "") or result.stderr]
    half = len(group) // 2
    return check(program, group[:half]) + check(program, group[half:])


def main():
    program = find_clang_tidy()
    if program is None:
        print(f"skipped: no clang-tidy {WANTED_MAJOR} here")
        return SKIPPED
    pending, seen = [], set()
    for build in map(pathlib.Path, sys.argv[1:]):
        if (build / "compile_commands.json").exists():
            (build / "clang-tidy-passed").mkdir(exist_ok=True)
            for unit in units(build.resolve()):
                if unit.source not in seen and not unit.stamp.exists():
                    pending.append(unit)
                seen.add(unit.source)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        largest_first = sorted(joins(pending), key=len, reverse=True)
        reports = sum(pool.map(lambda group: check(program, group), largest_first), [])
    findings = sorted({line for report in reports for line in report.splitlines() if re.search(r": (error|warning):", line)})
    print("\n".join(findings or reports))
    print(f"clang-tidy: {len(seen)} translation units, {len(pending)} checked, {len(reports)} with findings")
    return 1 if reports or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
