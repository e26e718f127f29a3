# SPDX-License-Identifier: Apache-2.0
"""Runs tidiness rules over the repository: `python3 tests/tidiness/check.py [--root FOLDER] [RULE ...]`; all without a name.

Exit status: 0 tidy, 1 findings, 77 skipped because the rule's tool is not on this machine.
"""
import argparse
import pathlib
import sys

import claim_rules
import fault_rules
import formatting
import function_length
import package_rules
import structure_rules
import text_rules
from tree import Tree

RULES = {
    "size": text_rules.size,
    "licence": text_rules.licence,
    "opening": text_rules.opening,
    "library_calls": text_rules.library_calls,
    "namespaces": text_rules.namespaces,
    "unfinished": text_rules.unfinished,
    "dead_code": text_rules.dead_code,
    "shared_folders": text_rules.shared_folders,
    "function_length": function_length.function_length,
    "macros": text_rules.macros,
    "vague_names": text_rules.vague_names,
    "private_words": text_rules.private_words,
    "links": text_rules.links,
    "arrows": structure_rules.arrows,
    "packages": package_rules.packages,
    "untested": structure_rules.untested,
    "faults": fault_rules.faults,
    "claims": claim_rules.claims,
    "formatting": formatting.formatting,
}
SKIPPED = 77


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).parents[2], help="repository root")
    parser.add_argument("rules", nargs="*", metavar="RULE", help=", ".join(RULES))
    arguments = parser.parse_args()
    unknown = set(arguments.rules) - set(RULES)
    if unknown:
        parser.error(f"no rule named {', '.join(sorted(unknown))}")

    tree = Tree(arguments.root)
    found = skipped = 0
    for name in arguments.rules or RULES:
        try:
            for finding in RULES[name](tree):
                print(finding)
                found += 1
        except formatting.ToolMissing as reason:
            print(f"[{name}] skipped: {reason}")
            skipped += 1
        if name == "size":
            for warning in text_rules.size_warnings(tree):
                print(f"warning: {warning}")
    return 1 if found else SKIPPED if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
