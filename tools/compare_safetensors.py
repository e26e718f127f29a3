# SPDX-License-Identifier: Apache-2.0
"""Differential test of the safetensors reader against the reference implementation (PyPI `safetensors`, in Rust).

Makes files that are valid or broken in one or two respects, asks both whether they accept them, and fails when we accept
what the reference refuses, or refuse what it accepts for a reason that docs/formats.md does not list.

    cmake --build build/release --target safetensors_verdicts
    python3 tools/compare_safetensors.py build/release/tests/fuzz/safetensors_verdicts [--files 20000] [--seed 1]
"""
import argparse
import collections
import json
import pathlib
import random
import struct
import subprocess
import tempfile

import safetensors

SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
         "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8, "C64": 8}
NUMBERS = [0, 1, 2, 3, 4, 8, 255, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -1, 1.0, "1", None, True, [1]]
# What docs/formats.md says that we refuse and the reference accepts.
STRICTER = ["has no elements", "duplicate key", "has an unknown key", 'has an unknown dtype; got "F4', "has a list that is too long",
            "past 63 bits", "is not a JSON object", "names too many tensors", "too many metadata entries", "is too long",
            "nested too deeply", "past 1e300", "not allowed; got null"]


class Pairs(list):
    """A JSON object that may name a key twice."""


def dump(value):
    if isinstance(value, Pairs):
        return "{" + ",".join(json.dumps(k) + ":" + dump(v) for k, v in value) + "}"
    return json.dumps(value, ensure_ascii=False)


def valid_header(rng):
    header, end = Pairs(), 0
    if rng.random() < 0.4:
        header.append(("__metadata__", Pairs((f"k{i}", "v\u00e9" * rng.randrange(3)) for i in range(rng.randrange(3)))))
    for i in range(rng.randrange(5)):
        dtype = rng.choice(list(SIZES))
        shape = [rng.randrange(1, 4) for _ in range(rng.randrange(4))]
        size = SIZES[dtype]
        for extent in shape:
            size *= extent
        entry = [("dtype", dtype), ("shape", shape), ("data_offsets", [end, end + size])]
        rng.shuffle(entry)
        header.append((f"t{i}", Pairs(entry)))
        end += size
    return header, end


def is_whole(entry):
    return isinstance(entry, Pairs) and {"dtype", "shape", "data_offsets"} <= {key for key, _ in entry}


def mutate_header(rng, header):
    """Changes one thing; returns what."""
    entries = [i for i, (key, value) in enumerate(header) if key != "__metadata__" and is_whole(value)]
    kind = rng.choice(["number", "drop key", "extra key", "twice", "swap", "dtype", "rename", "retype", "rank", "zero", "metadata", "shuffle"])
    if kind == "metadata" or not entries:
        header.append(("__metadata__", rng.choice([Pairs([("a", 1)]), Pairs([("a", None)]), None, [], "x", Pairs(), Pairs([("a", Pairs())])])))
        return kind
    at = rng.choice(entries)
    name, entry = header[at]
    field = rng.randrange(len(entry))
    if kind == "number":
        key = rng.choice(["shape", "data_offsets"])
        index = [k for k, _ in entry].index(key)
        numbers = list(entry[index][1]) or [1]
        numbers[rng.randrange(len(numbers))] = rng.choice(NUMBERS)
        entry[index] = (key, numbers)
    elif kind == "drop key":
        del entry[field]
    elif kind == "extra key":
        entry.append(("extra", rng.choice([1, "x", None, [1]])))
    elif kind == "twice":
        header.append((name, Pairs(entry))) if rng.random() < 0.5 else entry.append(entry[field])
    elif kind == "swap":
        other = rng.choice(entries)
        header[at], header[other] = (name, header[other][1]), (header[other][0], entry)
    elif kind == "dtype":
        entry[[k for k, _ in entry].index("dtype")] = ("dtype", rng.choice([*SIZES, "F4", "f32", "", "I4", "F128", 1, None]))
    elif kind == "rename":
        header[at] = (rng.choice(["", "__metadata__", "t\u0000", "\U0001f600", "t0", "x" * 300]), entry)
    elif kind == "retype":
        header[at] = (name, rng.choice([None, 1, "x", [], Pairs(), [Pairs(entry)]]))
    elif kind == "rank":
        index = [k for k, _ in entry].index("shape")
        entry[index] = ("shape", entry[index][1] + [1] * rng.choice([1, 12, 16, 20]))
    elif kind == "zero":
        header.append(("z", Pairs([("dtype", "F32"), ("shape", [rng.randrange(3), 0]), ("data_offsets", [0, 0])])))
    elif kind == "shuffle":
        rng.shuffle(header)
    return kind


def make_file(rng):
    header, size = valid_header(rng)
    what = [mutate_header(rng, header) for _ in range(rng.choice([0, 1, 1, 1, 2]))]
    if "zero" in what:
        what.append("has no elements")  # or another extent of its shape overflows first
    names = [key for key, _ in header]
    if len(set(names)) < len(names):
        what.append("duplicate key")  # whose first half may be refused for another reason
    text = dump(header).encode("utf-8", "surrogatepass")
    data = bytes(rng.randrange(256) for _ in range(size))
    length = None
    for kind in rng.sample(["blanks", "leading blank", "bytes", "tail", "cut data", "length", "nul", "cut"], rng.choice([0, 0, 0, 1, 1, 2])):
        what.append(kind)
        if kind == "blanks":
            text += rng.choice([b" ", b"\n\t ", b"        "])
        elif kind == "leading blank":
            text = b" " + text
        elif kind == "bytes":
            text = bytearray(text)
            for _ in range(rng.randrange(1, 3)):
                text[rng.randrange(len(text))] = rng.choice(b'{}[]",:0123456789-.eE\\u \x00\xff\xc3aFt')
            text = bytes(text)
        elif kind == "tail":
            data += bytes(rng.randrange(1, 9))
        elif kind == "cut data":
            data = data[: max(0, len(data) - rng.randrange(1, 5))]
        elif kind == "length":
            length = rng.choice([0, 1, len(text) - 1, len(text) + 1, 2**31, 10**8, 10**8 + 1, 2**63, 2**64 - 1])
        elif kind == "nul":
            text += b"\0" * rng.randrange(1, 8)
        elif kind == "cut":
            cut = rng.randrange(len(text) + 8)
            return what, (struct.pack("<Q", len(text)) + text + data)[:cut]
    return what, struct.pack("<Q", max(0, len(text) if length is None else length)) + text + data


def reference_accepts(data):
    try:
        safetensors.deserialize(data)
        return True
    except safetensors.SafetensorError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verdicts", help="the program built as safetensors_verdicts")
    parser.add_argument("--files", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        cases = [make_file(rng) for _ in range(options.files)]
        paths = []
        for i, (_, data) in enumerate(cases):
            paths.append(pathlib.Path(folder, f"{i}.safetensors"))
            paths[-1].write_bytes(data)
        answers = subprocess.run([options.verdicts], input="\n".join(map(str, paths)) + "\n", text=True, errors="replace",
                                 capture_output=True, check=True).stdout.splitlines()
    assert len(answers) == len(cases), (len(answers), len(cases))
    counts, stricter, wrong = collections.Counter(), collections.Counter(), []
    for (what, data), answer in zip(cases, answers):
        ours, theirs = answer == "accept", reference_accepts(data)
        counts[ours, theirs] += 1
        if ours == theirs:
            continue
        reason = next((reason for reason in STRICTER if not ours and (reason in answer or reason in what)), None)
        if reason:
            stricter[reason] += 1
        else:
            wrong.append((what, data[:400], answer))
    print(f"safetensors {safetensors.__version__}, {options.files} files, seed {options.seed}")
    print(f"both accept {counts[True, True]}, both refuse {counts[False, False]}, only the reference accepts {counts[False, True]}, "
          f"only we accept {counts[True, False]}")
    for reason, count in stricter.most_common():
        print(f"  stricter on purpose: {reason}: {count}")
    for case in wrong[:20]:
        print("UNEXPLAINED", *case)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
