# SPDX-License-Identifier: Apache-2.0
"""Prints `passed failed skipped` summed over JUnit files written by ctest. A file that is missing counts as one failure."""
import sys
import xml.etree.ElementTree as ElementTree


def counts(path):
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return 0, 1, 0
    total, failed, skipped = (int(root.get(key, 0)) for key in ("tests", "failures", "skipped"))
    skipped += int(root.get("disabled", 0))
    return total - failed - skipped, failed, skipped


print(*(sum(column) for column in zip((0, 0, 0), *map(counts, sys.argv[1:]))))
