# SPDX-License-Identifier: Apache-2.0
"""Holds `#include <...>` against tools/install.sh: a header's package is installed exactly while something includes it.

What only folders of OPTIONAL_FOLDERS include, which are not built without it, stands in the installer's list `optional`.
"""
import re

from tree import Finding

PACKAGES = "tests/tidiness/packages.txt"
INSTALLER = "tools/install.sh"
PROGRAM_FOLDERS = ("src/", "cli/")
OPTIONAL_FOLDERS = ("src/dist/", "tests/dist/")


def package_table(tree):
    """(start of the header's name, package), longest start first."""
    rows = [line.split() for line in tree.text(PACKAGES).splitlines() if line.strip() and not line.startswith("#")]
    return sorted(rows, key=lambda row: -len(row[0]))


def installed(tree, name):
    """Package -> line number in install.sh, from the list `NAME_packages='...'`."""
    found, inside = {}, False
    for number, line in enumerate(tree.text(INSTALLER).splitlines(), 1):
        if line.startswith(f"{name}_packages='"):
            inside = True
        elif line.startswith("'"):
            inside = False
        elif inside:
            found.update((package, number) for package in line.strip().split("|") if package)
    return found


def packages(tree):
    table = package_table(tree)
    build, test, optional = installed(tree, "build"), installed(tree, "test"), installed(tree, "optional")
    used, used_by_program = set(), set()
    for file in tree.cpp_files:
        for number, line in enumerate(file.lines, 1):
            match = re.match(r"\s*#\s*include\s+<([^>]+)>", line)
            package = next((package for start, package in table if match and match.group(1).startswith(start)), None)
            if package is None:
                continue
            used.add(package)
            if package in optional and file.path.startswith(OPTIONAL_FOLDERS):
                continue
            is_program = file.path.startswith(PROGRAM_FOLDERS)
            if is_program:
                used_by_program.add(package)
            if package not in build and (is_program or package not in test):
                wanted = "build" if is_program else "test"
                yield Finding("packages", file.path, number, f"{package} is missing in the {wanted} list of {INSTALLER}")
    for package in {package for _, package in table} & set(build) - used_by_program:
        yield Finding("packages", INSTALLER, build[package], f"nothing in src/ or cli/ includes a header of {package}")
    for package in {package for _, package in table} & set(test) - used:
        yield Finding("packages", INSTALLER, test[package], f"nothing includes a header of {package}")
    for package in {package for _, package in table} & set(optional) - used:
        yield Finding("packages", INSTALLER, optional[package], f"nothing includes a header of {package}")
