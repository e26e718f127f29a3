# SPDX-License-Identifier: Apache-2.0
"""Rules about how files stand to each other: module arrows held against arrows.txt, and a test for each source stem."""
import re

from tree import Finding

ARROWS = "tests/tidiness/arrows.txt"
UNTESTED = "tests/tidiness/untested.txt"
# The list of stems without a test may only become shorter: lower this number with it.
MOST_UNTESTED = 0
VARIANT_SUFFIXES = re.compile(r"(_generic|_avx2|_avx512|_avx512bf16|_amx|_sm90|_impl)$")


def permitted_arrows(tree):
    arrows = {}
    for line in tree.text(ARROWS).splitlines():
        line = line.split("#")[0].strip()
        if line:
            module, _, targets = line.partition(":")
            arrows[module.strip()] = set(targets.split())
    return arrows


def module_of(path, arrows):
    """`src/ops/cpu/x.cpp` is of module ops_cpu when there is such a module, else of ops; `cli/x.cpp` is of cli."""
    parts = path.removeprefix("src/").split("/")[:-1]
    for length in range(len(parts), 0, -1):
        name = "_".join(parts[:length])
        if name in arrows:
            return name
    return parts[0] if parts else ""


def link_edges(file):
    """(line, from, to) for each litespark_module(... DEPENDS ...) and target_link_libraries(litespark_x ... litespark_y)."""
    text = re.sub(r"#[^\n]*", "", file.text)
    for match in re.finditer(r"litespark_module\(\s*(\w+)([^)]*)\)", text):
        line = text.count("\n", 0, match.start()) + 1
        depends = re.search(r"\bDEPENDS\b(.*?)(?:\bLIBRARIES\b|$)", match.group(2), re.S)
        for target in depends.group(1).split() if depends else ():
            yield line, match.group(1), target
    for match in re.finditer(r"target_link_libraries\(\s*(?:litespark_)?(\w+)([^)]*)\)", text):
        line = text.count("\n", 0, match.start()) + 1
        source = "cli" if match.group(1) == "litespark" else match.group(1)
        for target in re.findall(r"\blitespark_(\w+)", match.group(2)):
            if target != "flags":
                yield line, source, target


def include_edges(file, arrows):
    source = module_of(file.path, arrows)
    for number, line in enumerate(file.lines, 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+/[^"]+)"', line)
        if match:
            yield number, source, module_of(match.group(1), arrows)


def arrows(tree):
    permitted = permitted_arrows(tree)
    if not permitted:
        yield Finding("arrows", ARROWS, 1, "the list of permitted arrows is missing or empty")
    for module, targets in permitted.items():
        for target in targets:
            if target not in permitted or module in reachable(target, permitted):
                yield Finding("arrows", ARROWS, 1, f"{module} -> {target} is a circle or leads to an unknown module")
    for file in tree.under("src", "cli"):
        if file.path.endswith("CMakeLists.txt"):
            edges = ((*edge, "links") for edge in link_edges(file))
        elif file.is_cpp:
            edges = ((*edge, "includes") for edge in include_edges(file, permitted))
        else:
            continue
        for line, source, target, verb in edges:
            if source != target and target not in permitted.get(source, set()):
                yield Finding("arrows", file.path, line, f"{source} {verb} {target}; {ARROWS} has no such arrow")


def reachable(module, permitted):
    seen, open_modules = set(), [module]
    while open_modules:
        for target in permitted.get(open_modules.pop(), ()):
            if target not in seen:
                seen.add(target)
                open_modules.append(target)
    return seen


def tested_stems(tree):
    """(top folder, stem) of each tests/<folder>/**/test_<stem>.cpp or .cu."""
    stems = set()
    for path in tree.paths:
        match = re.match(r"tests/(\w+)/(?:.+/)?test_(\w+)\.(?:cpp|cu)$", path)
        if match:
            stems.add((match.group(1), match.group(2)))
    return stems


def excused_stems(tree):
    """path -> (line, reason) from untested.txt, whose lines read `src/folder/stem.cpp: reason`."""
    excused = {}
    for number, line in enumerate(tree.text(UNTESTED).splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            path, _, reason = line.partition(":")
            excused[path.strip()] = (number, reason.strip())
    return excused


def sharing_stems(stem, siblings):
    """The stems whose test covers `stem`: its own, and that of a file beside it that it is a part of (hf_config_write of hf_config)."""
    stem = VARIANT_SUFFIXES.sub("", stem)
    words = stem.split("_")
    return [stem] + ["_".join(words[:count]) for count in range(1, len(words)) if "_".join(words[:count]) in siblings]


def untested(tree):
    tested = tested_stems(tree)
    excused = excused_stems(tree)
    sources = [match.groups() for path in tree.paths if (match := re.match(r"src/(\w+)/(?:(.+)/)?(\w+)\.(h|cpp|cu)$", path))]
    stems = {}
    for folder, _, stem, _ in sources:
        stems.setdefault(folder, set()).add(stem)
    without_test = set()
    for folder, inner, stem, suffix in sources:
        path = "/".join(part for part in ("src", folder, inner, f"{stem}.{suffix}") if part)
        names = sharing_stems(stem, stems[folder])
        if suffix != "h" and not any((folder, name) in tested for name in names):
            without_test.add(path)
            if path not in excused:
                yield Finding("untested", path, 1, f"no tests/{folder}/test_{names[-1]}.cpp")
    for path, (number, reason) in excused.items():
        if path not in without_test:
            yield Finding("untested", UNTESTED, number, f"{path} is tested or gone: delete the line and lower MOST_UNTESTED")
        if len(reason) < 10:
            yield Finding("untested", UNTESTED, number, f"{path} needs a reason after a colon")
    if len(excused) > MOST_UNTESTED:
        yield Finding("untested", UNTESTED, 1, f"{len(excused)} lines, at most {MOST_UNTESTED}: this list only shrinks")
