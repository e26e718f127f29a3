# SPDX-License-Identifier: Apache-2.0
"""Tokenizer throughput on one thread beside the Hugging Face tokenizers library: same text, same run, in turn.

    python bench/tokenizer.py --program build/release/bench/bench_tokenizer --text TEXT [--text TEXT ...] \\
        --out bench/results TOKENIZER [TOKENIZER ...]

Needs the tokenizers library. A TOKENIZER is a folder or a tokenizer.json; a TEXT is cut into documents of --document-bytes.
Both sides encode every document once to warm up; the library's figure is its faster call (encode_batch_fast, encode).
Writes DATE-tokenizer.json: medians and spread in MB/s, the ratio, whether all ids were equal.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402  (reads the variable above)


def documents(data, size):
    parts, begin = [], 0
    while begin < len(data):
        line_end = data.find(b"\n", begin + size - 1)
        end = len(data) if line_end < 0 else line_end + 1
        parts.append(data[begin:end].decode())
        begin = end
    return parts


def timed(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def spread(seconds, size):
    rates = sorted(size / 1e6 / value for value in seconds)
    return {"median_mb_per_second": round(statistics.median(rates), 3), "slowest": round(rates[0], 3), "fastest": round(rates[-1], 3)}


def compare(options, tokenizer_path, text_path):
    file = tokenizer_path / "tokenizer.json" if tokenizer_path.is_dir() else tokenizer_path
    library = tokenizers.Tokenizer.from_file(str(file))
    data = text_path.read_bytes()
    texts = documents(data, options.document_bytes)
    calls = {"encode_batch_fast": lambda: library.encode_batch_fast(texts, add_special_tokens=False),
             "encode": lambda: [library.encode(text, add_special_tokens=False) for text in texts]}
    ours, theirs = [], {name: [] for name in calls}
    equal = True
    for call in calls.values():
        call()
    for _ in range(options.rounds):
        command = [options.program, str(file), str(text_path), str(options.document_bytes)]
        report = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        ours.append(report["seconds"])
        for name, call in calls.items():
            seconds, encodings = timed(call)
            theirs[name].append(seconds)
            ids = [encoding.ids for encoding in encodings]
            equal = equal and report["tokens"] == sum(map(len, ids)) and report["sum"] == sum(map(sum, ids))
    best = min(theirs, key=lambda name: statistics.median(theirs[name]))
    ratio = statistics.median(theirs[best]) / statistics.median(ours)
    return {"tokenizer": file.parent.name if file.name == "tokenizer.json" else file.stem, "vocabulary": library.get_vocab_size(),
            "text": text_path.name, "bytes": len(data), "documents": len(texts), "tokens": report["tokens"], "ids_equal": equal,
            "litespark": spread(ours, len(data)), "library_call": best,
            "library": {name: spread(seconds, len(data)) for name, seconds in theirs.items()}, "ratio": round(ratio, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--text", required=True, action="append", type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--document-bytes", type=int, default=8192)
    parser.add_argument("tokenizers", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    rows = [compare(options, tokenizer, text) for tokenizer in options.tokenizers for text in options.text]
    for row in rows:
        print(f"{row['tokenizer']:24} {row['text']:16} {row['litespark']['median_mb_per_second']:9.2f} MB/s  library "
              f"{row['library'][row['library_call']]['median_mb_per_second']:7.2f}  {row['ratio']:6.1f}x  equal {row['ids_equal']}")
    result = {"date": datetime.date.today().isoformat(), "machine": f"{processor()}, {os.cpu_count()} cores", "load": os.getloadavg()[0],
              "python": platform.python_version(), "tokenizers": tokenizers.__version__, "threads": 1,
              "command": f"python bench/tokenizer.py --rounds {options.rounds}"
                         f" --document-bytes {options.document_bytes} (texts and tokenizers as in the rows)", "rows": rows}
    (options.out / f"{result['date']}-tokenizer.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(row["ids_equal"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
