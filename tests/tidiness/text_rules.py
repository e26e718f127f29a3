# SPDX-License-Identifier: Apache-2.0
"""Rules about the text of one file: size, first lines, words and calls that do not belong. Each rule yields findings.

Patterns write one letter of a banned word as a class, so that this file does not contain what it bans.
"""
import re

from tree import Finding

SOFT_LINES, HARD_LINES = 400, 600
README_LINES = 120
SIZED_SUFFIXES = {".cpp", ".h", ".cu", ".cuh", ".py", ".sh", ".cmake"}
CODE_FOLDERS = ("src", "cli", "tests", "tools", "bench", "cmake")


def size_warnings(tree):
    for file in tree.files:
        if file.suffix in SIZED_SUFFIXES and SOFT_LINES < len(file.lines) <= HARD_LINES:
            yield Finding("size", file.path, len(file.lines), f"{len(file.lines)} lines, the soft limit is {SOFT_LINES}")


def size(tree):
    for file in tree.files:
        if file.suffix in SIZED_SUFFIXES and len(file.lines) > HARD_LINES:
            yield Finding("size", file.path, len(file.lines), f"{len(file.lines)} lines, the limit is {HARD_LINES}")
        if file.path == "README.md" and len(file.lines) > README_LINES:
            yield Finding("size", file.path, len(file.lines), f"{len(file.lines)} lines, the limit is {README_LINES}")


def licence(tree):
    for file in tree.files:
        if file.is_cpp and not (file.lines and file.lines[0] == "// SPDX-License-Identifier: Apache-2.0"):
            yield Finding("licence", file.path, 1, "the first line must be the SPDX line")
        if file.suffix in {".py", ".sh"} and "# SPDX-License-Identifier: Apache-2.0" not in file.lines[:2]:
            yield Finding("licence", file.path, 1, "the SPDX line must stand in the first two lines")


def opening(tree):
    """After the SPDX line a comment says what the file is and its one idea. A header speaks for the source beside it, and the
    name of a test_<stem> says whose test it is."""
    paths = set(tree.paths)
    for file in tree.cpp_files:
        second = file.lines[1] if len(file.lines) > 1 else ""
        stem = file.path.removesuffix(file.suffix)
        has_header = not file.is_header and paths & {stem + ".h", stem + ".cuh"}
        if not has_header and not re.match(r"tests/.*/test_\w+$", stem) and not re.match(r"//+ \S", second):
            yield Finding("opening", file.path, 2, "line 2 must say in a comment what the file is")
        if file.is_header and not any(line.strip() == "#pragma once" for line in file.lines[:20]):
            yield Finding("opening", file.path, 1, "a header needs #pragma once near its top")


LIBRARY_CALLS = (
    (re.compile(r"(?<![\w.>:])(?<!void )(?:::|std::)?(?:_?[e]xit|quick_[e]xit|[a]bort)\s*\("), "library code throws, only cli/ ends the program"),
    (re.compile(r"(?<![\w.>])(?:std::)?(?:f?[p]rintf|v[p]rintf|vf[p]rintf|[p]uts|fputs|putchar)\s*\(|\bfmt::[p]rint"),
     "library code does not print"),
    (re.compile(r"\bstd::(?:[c]out|[c]err|[c]log)\b"), "library code does not print"),
)


def library_calls(tree):
    for file in tree.under("src"):
        if not file.is_cpp:
            continue
        for number, line in enumerate(file.code_lines, 1):
            for pattern, message in LIBRARY_CALLS:
                if pattern.search(line):
                    yield Finding("library_calls", file.path, number, message)


def namespaces(tree):
    for file in tree.cpp_files:
        for number, line in enumerate(file.code_lines, 1):
            if re.search(r"\busing\s+namespace\b", line) and (file.is_header or re.search(r"namespace\s+std\s*;", line)):
                yield Finding("namespaces", file.path, number, "no `using namespace` in a header, nor of std anywhere")


UNFINISHED = re.compile(r"\b([T]ODO|[F]IXME|XX[X]|HA[C]K)\b|not [i]mplemented|[u]nimplemented|[p]laceholder|hard-?[c]oded", re.I)


def unfinished(tree):
    for file in tree.under(*CODE_FOLDERS):
        if file.path.startswith("tests/golden/"):
            continue
        for number, line in enumerate(file.lines, 1):
            if (match := UNFINISHED.search(line)):
                yield Finding("unfinished", file.path, number, f"`{match.group(0)}`: finish it or open an issue")


# A comment that reads as a statement: it ends as one and has an assignment, a call or a keyword in it.
DEAD_CPP = re.compile(r"^\s*//(?!/)\s*(?:[\w:<>,*&\[\].\s]+(?:=|\(|->|\+\+|--).*;|(?:if|for|while|switch)\s*\(.*[{;]|"
                      r"(?:return|break|continue|throw)\b[^.]*;|#\s*(?:include|if|ifdef|define|endif)\b.*|[{}]+;?|"
                      r"(?:class|struct|void|int|float|double|auto|template)\b.*[{;])\s*$")
DEAD_SCRIPT = re.compile(r"^\s*#\s*(?:import \w+$|from [\w.]+ import |def \w+\(|return [\w(]+$|print\(|\w+ = .*\)$|"
                         r"(?:add|target|find|set)_?\w*\(.*\)$)")


def dead_code(tree):
    for file in tree.under(*CODE_FOLDERS):
        pattern = DEAD_CPP if file.is_cpp else DEAD_SCRIPT if file.suffix in {".py", ".cmake"} or file.path.endswith("CMakeLists.txt") else None
        if pattern is None:
            continue
        for number, line in enumerate(file.lines, 1):
            if pattern.match(line):
                yield Finding("dead_code", file.path, number, "commented-out code; delete it, or make it a sentence")


def shared_folders(tree):
    """Tests run as processes beside each other: a folder of a fixed name in the common temporary folder is fought over."""
    for file in tree.under("tests"):
        for number, line in enumerate(file.lines, 1):
            if re.search(r"\b[T]empDir\(\)", line):
                yield Finding("shared_folders", file.path, number, "use test::TemporaryFolder, which no other process has")


FUNCTION_MACRO = re.compile(r"^\s*#\s*define\s+\w+\(")
MOST_MACROS = 2


def macros(tree):
    found = [(file.path, number) for file in tree.cpp_files for number, line in enumerate(file.code_lines, 1)
             if FUNCTION_MACRO.match(line)]
    if len(found) > MOST_MACROS:
        for path, number in found:
            yield Finding("macros", path, number, f"{len(found)} function-like macros in the project, at most {MOST_MACROS} are allowed")


VAGUE_NAMES = {"utils", "util", "utilities", "helpers", "misc"}


def vague_names(tree):
    for path in tree.paths:
        parts = path.split("/")
        if VAGUE_NAMES & set(parts[:-1]) or parts[-1].split(".")[0] in VAGUE_NAMES:
            yield Finding("vague_names", path, 1, "a catch-all name; say what the thing is")


PRIVATE_WORDS = re.compile(r"(^|[^a-z.])/([w]ork|[f]arm)/|://[a-z0-9.-]*([d]ebian|[p]ypi|[n]pm|[p]ythonhosted)[a-z0-9.-]*/"
                           r"|[f]arm-(studio|bench)|before-[s]top|sub[a]gent")


def private_words(tree):
    for file in tree.files:
        if not PRIVATE_WORDS.search(file.text) and not re.search(r"^/([w]ork|[f]arm)/", file.text, re.M):
            continue
        for number, line in enumerate(file.lines, 1):
            if (match := PRIVATE_WORDS.search(line)):
                yield Finding("private_words", file.path, number, f"`{match.group(0)}` belongs to one machine, not to the project")


LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(?:#[^)]*)?\)")


def links(tree):
    for file in tree.files:
        if file.suffix != ".md":
            continue
        for number, line in enumerate(file.lines, 1):
            for target in LINK.findall(line):
                if not (tree.root / file.path).parent.joinpath(target).exists():
                    yield Finding("links", file.path, number, f"{target} does not exist")
