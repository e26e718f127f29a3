# SPDX-License-Identifier: Apache-2.0
"""Plants one violation of each kind in a temporary tree and demands that its rule finds it there.

Banned words are put together here from two halves, so that this file itself stays tidy.
"""
import pathlib
import shutil
import tempfile
import unittest

import check
import claim_rules
import fault_rules
import formatting
import package_rules
import structure_rules
from tree import Tree, blank_comments_and_strings

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
HEADER = SPDX + "// A header of the sample tree.\n#pragma once\n"
SOURCE = SPDX + "// A source of the sample tree.\n"
TIDY = {
    ".clang-format": "BasedOnStyle: Google\n",
    "README.md": "# Sample\nSee [this](src/core/shape.h), [that](https://example.org/x) and [part](README.md#sample).\n",
    "src/core/shape.h": HEADER + '\n/// Prints nothing: "exit(1);" is text.\nint rank();  // abort() is a comment\n'
                        'struct Call {\n  virtual void ab' 'ort();  // a member of that name ends no program\n};\n',
    "src/core/shape.cpp": SPDX + '#include "core/shape.h"\n\nint rank() { return 2; }\n',
    "src/core/shape_avx2.cpp": SOURCE + "int rank_avx2() { return 2; }\n",
    "src/core/shape_text.cpp": SOURCE + "// A part of shape, so that its test is test_shape.\n",
    "src/core/CMakeLists.txt": "litespark_module(core)\n",
    "src/dist/gloo/mesh.cpp": SOURCE + "#include <gloo/context.h>\n",
    "tests/dist/test_mesh.cpp": SOURCE,
    "src/ops/cpu/add.cpp": SOURCE + '#include <zlib.h>\n\n#include "core/shape.h"\n#include "ops/backend.h"\n',
    "src/ops/cpu/CMakeLists.txt": "litespark_module(ops_cpu DEPENDS core ops LIBRARIES dnnl)\n",
    "src/ops/backend.h": HEADER,
    "cli/main.cpp": SOURCE + "#include <cstdio>\nint main() { return std::" + "puts(\"hello\"); }\n",
    "tests/core/test_shape.cpp": SOURCE + "#include <gtest/gtest.h>\n\n// fault:A1\nTEST(Shape, HasRank) { rank(); }\n",
    fault_rules.TABLE: "| fault | what | tests |\n| --- | --- | --- |\n| fault:A1 | a rank is lost | `Shape.HasRank` |\n",
    claim_rules.TABLE: "| id | here |\n| --- | --- |\n| claim:C1 | `tests/ops/cpu/test_add.cpp` |\n| claim:L2 | x |\n",
    "tests/ops/cpu/test_add.cpp": SOURCE + '// claim:C1\nFinding finding{.claim = "L2"};\n',
    structure_rules.ARROWS: "core:\ndist: core\nops: core\nops_cpu: core ops\nmodel: core ops\ncli: core ops ops_cpu model\n",
    structure_rules.UNTESTED: "",
    package_rules.PACKAGES: "# header, package\nzlib.h zlib1g-dev\ngtest/ libgtest-dev\nzstd.h libzstd-dev\ngloo/ libgloo-dev\n",
    package_rules.INSTALLER: "# SPDX-License-Identifier: Apache-2.0\nbuild_packages='\n  cmake\n  zlib1g-dev\n'\n"
                             "optional_packages='\n  libgloo-dev\n'\ntest_packages='\n  libgtest-dev\n'\n",
}

# (rule that must find it, file, text). The text replaces the file of the tidy tree or stands beside it.
PLANTED = [
    ("size", "src/core/shape.h", HEADER + "\n" * 600),
    ("size", "tools/long.py", "# SPDX-License-Identifier: Apache-2.0\n" + "\n" * 600),
    ("size", "README.md", "line\n" * 121),
    ("licence", "src/core/other.h", "// A header.\n#pragma once\n"),
    ("licence", "src/core/other.h", "\n" + HEADER),
    ("licence", "tools/draw.py", '"""Draws."""\n'),
    ("licence", "tools/draw.sh", "#!/bin/sh\n"),
    ("opening", "src/core/other.h", SPDX + "#pragma once\n"),
    ("opening", "src/core/other.h", SPDX + "// A header.\nint rank();\n"),
    ("opening", "cli/train.cpp", SPDX + "int train();\n"),
    ("library_calls", "src/core/shape.h", HEADER + "inline void stop() { std::" + "exit(1); }\n"),
    ("library_calls", "src/core/shape.h", HEADER + "inline void stop() { " + "abort(); }\n"),
    ("library_calls", "src/core/shape.h", HEADER + "inline void stop() { ::" + "abort(); }\n"),
    ("library_calls", "src/core/shape.h", HEADER + 'inline void say() { ' + 'printf("x"); }\n'),
    ("library_calls", "src/core/shape.h", HEADER + 'inline void say() { std::f' + 'printf(stderr, "x"); }\n'),
    ("library_calls", "src/core/shape.h", HEADER + 'inline void say() { std::' + 'cout << "x"; }\n'),
    ("library_calls", "src/core/shape.h", HEADER + 'inline void say() { std::' + 'cerr << "x"; }\n'),
    ("library_calls", "src/core/shape.h", HEADER + 'inline void say() { fmt::' + 'print("x"); }\n'),
    ("namespaces", "src/core/shape.h", HEADER + "using namespace litespark;\n"),
    ("namespaces", "cli/main.cpp", SOURCE + "using  namespace std;\n"),
    ("unfinished", "src/core/shape.h", HEADER + "// TO" + "DO: more\n"),
    ("unfinished", "cli/main.cpp", SOURCE + "// FIX" + "ME\n"),
    ("unfinished", "tests/core/test_shape.cpp", SOURCE + "// Not imple" + "mented yet.\n"),
    ("unfinished", "cli/main.cpp", SOURCE + "// a hard" + "coded size\n"),
    ("dead_code", "src/core/shape.h", HEADER + "// int old_rank = 3;\n"),
    ("dead_code", "src/core/shape.h", HEADER + "  // old_rank(3);\n"),
    ("dead_code", "src/core/shape.h", HEADER + "  // return old_rank;\n"),
    ("dead_code", "src/core/shape.h", HEADER + "// #include <map>\n"),
    ("dead_code", "src/core/shape.h", HEADER + "// }\n"),
    ("dead_code", "src/core/CMakeLists.txt", "litespark_module(core)\n# target_sources(litespark_core PRIVATE x.cpp)\n"),
    ("dead_code", "tools/draw.py", "# SPDX-License-Identifier: Apache-2.0\n# import sys\n"),
    ("shared_folders", "tests/core/test_shape.cpp", SOURCE + "auto folder = testing::Temp" + "Dir() + x;\n"),
    ("function_length", "src/core/shape.cpp", SOURCE + "int f() {\n" + "  g();\n" * 61 + "}\n"),
    ("function_length", "src/core/shape.cpp", SOURCE + "struct A {\n  int f() const {\n" + "  g();\n" * 61 + "  }\n};\n"),
    ("function_length", "src/ops/cuda/add.cu", SOURCE + "__global__ void f() {\n" + "  g();\n" * 151 + "}\n"),
    ("macros", "src/core/shape.h", HEADER + "".join(f"#define F{n}(x) (x)\n" for n in range(3))),
    ("vague_names", "src/utils/shape.h", HEADER),
    ("vague_names", "src/core/utils.h", HEADER),
    ("private_words", "docs/setup.md", "see /wo" + "rk/main\n"),
    ("private_words", "docs/setup.md", "first\n/fa" + "rm/data is here\n"),
    ("private_words", "docs/setup.md", "http://deb.deb" + "ian.org/dists\n"),
    ("private_words", "tools/fetch.sh", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\ncurl https://py" + "pi.org/simple\n"),
    ("links", "docs/setup.md", "see [the design](../DESIGN.md)\n"),
    ("arrows", "src/core/shape.h", HEADER + '#include "model/block.h"\n'),
    ("arrows", "src/model/block.h", HEADER + '#include "ops/cpu/add.h"\n'),
    ("arrows", "src/core/CMakeLists.txt", "litespark_module(core\n  DEPENDS model\n  LIBRARIES fmt::fmt)\n"),
    ("arrows", "src/core/CMakeLists.txt", "litespark_module(core)\ntarget_link_libraries(litespark_core PRIVATE litespark_ops)\n"),
    ("arrows", "src/parrot/CMakeLists.txt", "litespark_module(parrot DEPENDS core)\n"),
    ("arrows", structure_rules.ARROWS, "core: ops\nops: core\nops_cpu: core ops\nmodel: core\ncli: core\n"),
    ("arrows", structure_rules.ARROWS, ""),
    ("packages", "src/core/shape.h", HEADER + "#include <zstd.h>\n"),
    ("packages", "src/core/shape.h", HEADER + "#include <gtest/gtest.h>\n"),
    ("packages", package_rules.INSTALLER, "build_packages='\n  zlib1g-dev\n  libzstd-dev\n'\ntest_packages='\n  libgtest-dev\n'\n"),
    ("packages", package_rules.INSTALLER, "build_packages='\n  zlib1g-dev\n'\ntest_packages='\n  libgtest-dev\n  libzstd-dev\n'\n"),
    ("packages", package_rules.INSTALLER, "build_packages='\n  zlib1g-dev\n'\noptional_packages='\n  libzstd-dev\n'\n"
                                          "test_packages='\n  libgtest-dev\n'\n"),
    ("packages", "src/core/shape.h", HEADER + "#include <gloo/context.h>\n"),
    ("untested", "src/core/buffer.cpp", SOURCE),
    ("untested", "src/ops/cuda/scale.cu", SOURCE),
    ("untested", "src/core/shapes_text.cpp", SOURCE),
    ("untested", "src/ops/cuda/shape_text.cu", SOURCE),
    ("untested", "src/ops/cpu/scale_avx512bf16.cpp", SOURCE),
    ("untested", structure_rules.UNTESTED, "src/core/shape.cpp: it is tested by now\n"),
    ("untested", structure_rules.UNTESTED, "".join(f"src/core/x{n}.cpp: a good reason\n" for n in range(50))),
    ("faults", fault_rules.TABLE, "| fault:A1 | a rank is lost | `Shape.HasSize` |\n"),
    ("faults", fault_rules.TABLE, "| fault:A1 | a rank is lost | `Shape.HasRank` |\n" * 2),
    ("faults", fault_rules.TABLE, "| fault:A1 | a rank is lost | `Shape.HasRank` |\n| fault:A2 | x | `Shape.HasRank` |\n"),
    ("faults", fault_rules.TABLE, "| fault:A1 | a rank is lost | |\n"),
    ("faults", "tests/core/test_size.cpp", SOURCE + "// fault:B1\nTEST(Size, IsThere) { size(); }\n"),
    ("claims", claim_rules.TABLE, "| claim:C1 | x |\n| claim:C1 | x |\n| claim:L2 | x |\n"),
    ("claims", claim_rules.TABLE, "| claim:C1 | `tests/absent.cpp` |\n| claim:L2 | x |\n"),
    ("claims", claim_rules.TABLE, "| claim:C1 | x |\n| claim:L2 | x |\n| claim:L3 | x |\n"),
    ("claims", "tests/core/test_size.cpp", SOURCE + "// claim:C2\n"),
    ("claims", "src/core/size.h", HEADER + 'Finding finding{.claim = "L7"};\n'),
    ("formatting", "src/core/other.h", HEADER + "int   rank( );\n"),
]


class Rules(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="litespark-tidiness-"))
        self.addCleanup(shutil.rmtree, self.root)
        for path, text in TIDY.items():
            self.write(path, text)

    def write(self, path, text):
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    def findings(self, rule):
        try:
            return list(check.RULES[rule](Tree(self.root)))
        except formatting.ToolMissing as reason:
            self.skipTest(str(reason))

    def test_a_tidy_tree_has_no_findings(self):
        for rule in check.RULES:
            with self.subTest(rule):
                self.assertEqual([str(finding) for finding in self.findings(rule)], [])

    def test_each_rule_has_a_planted_violation(self):
        self.assertEqual({rule for rule, _, _ in PLANTED}, set(check.RULES))

    def test_ctest_runs_each_rule(self):
        listing = pathlib.Path(__file__).with_name("CMakeLists.txt").read_text()
        named = listing[listing.index("foreach(rule") + len("foreach(rule"):].split(")")[0].split()
        self.assertEqual(set(named), set(check.RULES))

    def test_each_planted_violation_is_found_where_it_stands(self):
        for rule, path, text in PLANTED:
            with self.subTest(rule=rule, path=path, text=text[-60:]):
                before = TIDY.get(path)
                self.write(path, text)
                self.assertIn(path, [finding.path for finding in self.findings(rule)])
                if before is None:
                    (self.root / path).unlink()
                else:
                    self.write(path, before)

    def test_the_soft_limit_warns_and_does_not_fail(self):
        self.write("src/core/shape.h", HEADER + "\n" * 450)
        self.assertEqual(self.findings("size"), [])
        self.assertEqual(len(list(check.text_rules.size_warnings(Tree(self.root)))), 1)

    def test_kernels_may_be_longer_than_host_functions_and_classes_have_no_limit(self):
        self.write("src/ops/cuda/add.cu", SOURCE + "namespace a {\n__global__ void f(const struct A a) {\n" + "  g();\n" * 140 +
                   "}\nstruct B {\n" + "  int x;\n" * 100 + "};\n}\n")
        self.assertEqual([str(finding) for finding in self.findings("function_length")], [])

    def test_prose_is_not_taken_for_commented_out_code(self):
        prose = ["// The sum runs over rows; columns are vectors.", "// y = x * rstd * weight, x [T, C]",
                 "/// Overwrites out; accumulates into weight_gradient;", "// Returns nothing (a claim), see [3].",
                 "// 1. project", "// for each row: max, then sum"]
        self.write("src/core/shape.h", HEADER + "\n".join(prose) + "\n")
        self.assertEqual([str(finding) for finding in self.findings("dead_code")], [])

    def test_comments_and_literals_are_blanked_and_code_is_kept(self):
        code = "int a; // exit\nauto s = \"ex\\\"it\"; /* a\nb */ char c = '\"'; auto n = 1'000; auto r = R\"(x\ny)\"; end"
        blanked = blank_comments_and_strings(code)
        self.assertEqual(len(blanked.splitlines()), len(code.splitlines()))
        self.assertNotIn("exit", blanked)
        self.assertNotIn("b */", blanked)
        for kept in ("int a;", "auto s =", "auto n = 1'000;", "end"):
            self.assertIn(kept, blanked)


if __name__ == "__main__":
    unittest.main()
