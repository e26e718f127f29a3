# SPDX-License-Identifier: Apache-2.0
"""Holds docs/claims.md against the code: each claim that is named somewhere has one row, and the files that rows name are there."""
import re

from tree import Finding

TABLE = "docs/claims.md"
ROW = re.compile(r"\|\s*claim:([CL]\d+)\s*\|")
MARK = re.compile(r"\bclaim:([CL]\d+)\b|\.claim = \"([CL]\d+)\"")
FILE = re.compile(r"`((?:src|tests|bench|docs)/[^`\s]+)`")


def claims(tree):
    rows = {}
    for number, line in enumerate(tree.text(TABLE).splitlines(), 1):
        match = ROW.match(line)
        if not match:
            continue
        if match.group(1) in rows:
            yield Finding("claims", TABLE, number, f"claim:{match.group(1)} has two rows")
        rows[match.group(1)] = number
        for path in FILE.findall(line):
            if not (tree.root / path).exists():
                yield Finding("claims", TABLE, number, f"there is no {path}")
    named = set()
    for folder in ("src", "cli", "tests", "bench", "docs"):
        for file in tree.under(folder):
            if file.path == TABLE or file.suffix == ".py":
                continue
            for number, line in enumerate(file.lines, 1):
                for groups in MARK.findall(line):
                    claim = groups[0] or groups[1]
                    named.add(claim)
                    if claim not in rows:
                        yield Finding("claims", file.path, number, f"claim:{claim} has no row in {TABLE}")
    for claim in sorted(set(rows) - named):
        yield Finding("claims", TABLE, rows[claim], f"claim:{claim} is named nowhere")
