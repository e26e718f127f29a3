# SPDX-License-Identifier: Apache-2.0
"""The clang-format rule. Only version 14 is asked, since other versions lay out some constructs differently."""
import concurrent.futures
import os
import re
import shutil
import subprocess

from tree import Finding

WANTED_MAJOR = "14"
FILES_A_CALL = 16


class ToolMissing(Exception):
    """The tool of a rule is not on this machine; the rule counts as skipped."""


def find_clang_format():
    for name in (f"clang-format-{WANTED_MAJOR}", "clang-format"):
        path = shutil.which(name)
        if path:
            version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
            if re.search(rf"version {WANTED_MAJOR}\.", version):
                return path
    raise ToolMissing(f"no clang-format {WANTED_MAJOR} here")


def formatting(tree):
    program = find_clang_format()
    names = [file.path for file in tree.cpp_files]
    groups = [names[start:start + FILES_A_CALL] for start in range(0, len(names), FILES_A_CALL)]

    def check(group):
        return subprocess.run([program, "--dry-run", "--style=file", *group], cwd=tree.root, capture_output=True,
                              text=True, check=False).stderr

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for output in pool.map(check, groups):
            for match in re.finditer(r"^(\S+?):(\d+):\d+: (?:warning|error): (.*)$", output, re.M):
                yield Finding("formatting", match.group(1), int(match.group(2)), match.group(3))
