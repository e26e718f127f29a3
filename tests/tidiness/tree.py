# SPDX-License-Identifier: Apache-2.0
"""The repository as the tidiness rules see it: tracked text files with their lines, and C++ lines freed of comments and strings."""
import functools
import pathlib
import re
import subprocess
from dataclasses import dataclass

CPP_SUFFIXES = {".cpp", ".h", ".cu", ".cuh"}
HEADER_SUFFIXES = {".h", ".cuh"}
NOT_OURS = re.compile(r"^(build[^/]*|out|runs|\.git|\.cache|\.ext)/|(^|/)__pycache__/")


@dataclass(frozen=True)
class Finding:
    rule: str
    path: str
    line: int
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: [{self.rule}] {self.message}"


@dataclass(frozen=True)
class SourceFile:
    path: str
    text: str

    @property
    def suffix(self):
        return pathlib.PurePosixPath(self.path).suffix

    @property
    def stem(self):
        return pathlib.PurePosixPath(self.path).stem

    @property
    def is_cpp(self):
        return self.suffix in CPP_SUFFIXES

    @property
    def is_header(self):
        return self.suffix in HEADER_SUFFIXES

    @functools.cached_property
    def lines(self):
        return self.text.splitlines()

    @functools.cached_property
    def code_lines(self):
        """C++ lines with comments and the inside of string and character literals blanked, same numbering."""
        return blank_comments_and_strings(self.text).splitlines()


_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
    re.S)


def blank_comments_and_strings(text):
    def blank(match):
        token = match.group(0)
        if token.startswith(("//", "/*")):
            return re.sub(r"[^\n]", " ", token)
        return token[0] + re.sub(r"[^\n]", " ", token[1:-1]) + token[-1]

    return _TOKEN.sub(blank, text)


class Tree:
    """Every tracked or new text file below `root`; binary files are left out."""

    def __init__(self, root):
        self.root = pathlib.Path(root)

    @functools.cached_property
    def paths(self):
        listing = subprocess.run(
            ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "-z"],
            cwd=self.root, capture_output=True, text=True, check=False) if (self.root / ".git").exists() else None
        if listing is not None and listing.returncode == 0:
            names = [name for name in listing.stdout.split("\0") if name]
        else:
            names = [path.relative_to(self.root).as_posix() for path in self.root.rglob("*")]
        return sorted(name for name in set(names) if not NOT_OURS.search(name) and (self.root / name).is_file())

    @functools.cached_property
    def files(self):
        found = []
        for name in self.paths:
            data = (self.root / name).read_bytes()
            if b"\0" not in data[:8192]:
                found.append(SourceFile(name, data.decode("utf-8", errors="replace")))
        return found

    @functools.cached_property
    def cpp_files(self):
        return [file for file in self.files if file.is_cpp]

    def under(self, *folders):
        return [file for file in self.files if file.path.startswith(tuple(folder + "/" for folder in folders))]

    def text(self, path):
        full = self.root / path
        return full.read_text() if full.is_file() else ""
