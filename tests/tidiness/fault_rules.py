# SPDX-License-Identifier: Apache-2.0
"""Holds docs/faults.md against the tests: each known fault stands in the table once, with tests that exist and name it."""
import re

from tree import Finding

TABLE = "docs/faults.md"
ROW = re.compile(r"\|\s*((?:fault|report):[A-F]\d+)\s*\|\s*([^|]*?)\s*\|\s*([^|]*?)\s*\|$")
MARK = re.compile(r"\b(?:fault|report):[A-F]\d+\b")
TEST = re.compile(r"(?:TEST|TEST_F|TEST_P|RC_GTEST_PROP)\(\s*(\w+),\s*(\w+)")


def named_tests(file):
    """(name, text) of each test: from the comment right above it to the brace that ends it."""
    start = 0
    name = None
    for number, line in enumerate(file.lines):
        match = TEST.match(line)
        if match:
            name, start = f"{match.group(1)}.{match.group(2)}", number
            while start > 0 and file.lines[start - 1].startswith("//"):
                start -= 1
        if name and line.startswith("}") or match and line.endswith("}"):
            yield name, "\n".join(file.lines[start:number + 1])
            name = None


def rows(tree):
    """(line, fault, tests) of the table."""
    for number, line in enumerate(tree.text(TABLE).splitlines(), 1):
        match = ROW.match(line.strip())
        if match:
            yield number, match.group(1), match.group(2), re.findall(r"`([\w.]+)`", match.group(3))


def faults(tree):
    sources = [file for file in tree.under("tests") if file.is_cpp]
    texts = {}
    for file in sources:
        for name, text in named_tests(file):
            texts[name] = texts.get(name, "") + text
    seen = set()
    for number, fault, phrase, tests in rows(tree):
        if fault in seen:
            yield Finding("faults", TABLE, number, f"{fault} has two rows")
        seen.add(fault)
        if not phrase or not tests:
            yield Finding("faults", TABLE, number, f"{fault} needs a phrase and a test in backticks")
        for test in tests:
            if test not in texts:
                yield Finding("faults", TABLE, number, f"there is no test {test}")
            elif fault not in MARK.findall(texts[test]):
                yield Finding("faults", TABLE, number, f"{test} does not name {fault}")
    for file in sources:
        for number, line in enumerate(file.lines, 1):
            for fault in MARK.findall(line):
                if fault not in seen:
                    yield Finding("faults", file.path, number, f"{fault} has no row in {TABLE}")
