"""The checker finds what it is there to find."""
import pathlib
import tempfile
import unittest

import check_layers


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.dir.name)

    def tearDown(self):
        self.dir.cleanup()

    def problems(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        found = check_layers.check_source(self.root)
        file.unlink()
        return found

    def test_includes(self):
        good = '#include "base/base.h"\n#include "kern/mm_body.h"\n#include <stdio.h>\n'
        self.assertEqual(self.problems("src/kern/x86/a.c", good), [])
        for room, line in (("kern", '"plan/plan.h"'), ("base", '"text/text.h"'), ("kern", '"cpu/cpu_room.h"'),
                           ("kern", '"mm_body.h"'), ("kern", '"nowhere/x.h"'), ("serve", '"plan/plan.h"'),
                           ("quant", "<hayate/hayate.h>"), ("cli", '"engine/engine.h"')):
            self.assertEqual(len(self.problems(f"src/{room}/a.c", f"#include {line}\n")), 1, line)
        self.assertEqual(self.problems("src/serve/a.c", "#include <hayate/hayate.h>\n"), [])
        self.assertEqual(self.problems("src/base/a.h", "#include <hayate/status.h>\n"), [])
        (self.root / "src/kern/beside.h").write_text("")
        self.assertEqual(self.problems("src/kern/a.c", '#include "beside.h"\n'), [])
        self.assertEqual(len(self.problems("src/kern/a.c", '#include "../base/base.h"\n')), 1)
        self.assertEqual(len(self.problems("src/strange/a.c", "")), 1)

    def test_lengths(self):
        self.assertEqual(len(self.problems("src/base/a.c", "int x;\n" * 801)), 1)
        self.assertEqual(self.problems("src/base/a.c", "int x;\n" * 800), [])
        body = "    x();\n"
        self.assertEqual(self.problems("src/base/a.c", "void f(void)\n{\n" + body * 118 + "}\n"), [])
        self.assertEqual(len(self.problems("src/base/a.c", "void f(void)\n{\n" + body * 119 + "}\n")), 1)
        table = "static const int t[] = {\n" + "    1,\n" * 500 + "};\n"
        self.assertEqual(self.problems("src/base/a.c", table), [])

    def test_notes(self):
        word = "TO" + "DO"
        self.assertEqual(len(self.problems("src/base/a.c", f"/* {word}: later */\n")), 1)
        self.assertEqual(self.problems("src/base/a.c", f"/* {word}(#12): later */\n"), [])
        self.assertEqual(self.problems("src/base/a.c", 'char t[] = "a_' + "X" * 6 + '";\n'), [])

    def test_registers(self):
        listing = ["a.c.o:     file format elf64-x86-64", " 0: vaddps %ymm1,%ymm2,%ymm3", " 8: ret",
                   "b.c.o:     file format elf64-x86-64", " 0: addps %xmm1,%xmm2"]
        self.assertEqual(list(check_layers.wide_members(listing)), ["a.c.o"])


if __name__ == "__main__":
    unittest.main()
