# SPDX-License-Identifier: Apache-2.0
"""The function-length rule: 60 lines for a host function, 150 for a kernel or another device function.

A function body is a brace block that opens inside nothing but namespaces and classes. clang-tidy measures the host code of
the main build as well; this rule is quick, and sees the kernels and the tests too.
"""
import re

from tree import Finding

MOST_HOST_LINES, MOST_DEVICE_LINES = 60, 150
SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum)\b(?!.*[)]\s*$)|\bextern\s*\" *\"\s*$", re.S)
DEVICE = re.compile(r"__(?:global|device)__")


def bodies(code):
    """(first line, last line, head) of each function body; `head` is the text between the previous statement and its brace."""
    open_blocks, line, head_start = [], 1, 0
    for match in re.finditer(r"[{};\n]", code):
        mark = match.group(0)
        if mark == "\n":
            line += 1
            continue
        if mark == "{":
            head = code[head_start:match.start()]
            inside_function = any(kind != "scope" for kind, _, _ in open_blocks)
            kind = "inner" if inside_function else "scope" if SCOPE.search(head.strip()) else "body"
            open_blocks.append((kind, line, head))
        elif mark == "}" and open_blocks:
            kind, first, head = open_blocks.pop()
            if kind == "body":
                yield first, line, head
        head_start = match.end()


def function_length(tree):
    for file in tree.cpp_files:
        # Preprocessor lines can hold lone braces of alternative branches.
        code = re.sub(r"^\s*#.*$", "", "\n".join(file.code_lines), flags=re.M)
        for first, last, head in bodies(code):
            most = MOST_DEVICE_LINES if DEVICE.search(head) else MOST_HOST_LINES
            if "(" in head and last - first > most:
                yield Finding("function_length", file.path, first, f"a function of {last - first} lines, at most {most}")
