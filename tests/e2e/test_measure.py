"""hayate cpu and hayate profile from outside. Usage: test_measure.py HAYATE"""
import json
import os
import shutil
import sys
import tempfile
import unittest

import common
from common import MODEL

HAYATE = ""


class Measure(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.env = {"HAYATE_CACHE": cls.dir.name}

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def good(self, *args):
        r = common.run(self, HAYATE, *args, env=self.env, timeout=300)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def bad(self, args, word):
        r = common.run(self, HAYATE, *args, env=self.env)
        self.assertIn(r.returncode, (1, 2))
        self.assertEqual(r.stdout, "")
        self.assertIn(word, r.stderr)

    def test_cpu(self):
        first = json.loads(self.good("cpu", "--json"))
        again = json.loads(self.good("cpu", "--json"))
        self.assertTrue(again["cached"])
        self.assertEqual(again["limits"], first["limits"])
        self.assertFalse(json.loads(self.good("cpu", "--json", "--fresh"))["cached"])
        m, limits = again["machine"], again["limits"]
        self.assertEqual(m["processors_allowed"], len(os.sched_getaffinity(0)))
        self.assertIn(m["isa"], m["isas"])
        self.assertIn(m["isa"], [level["isa"] for level in limits["operations"]])
        self.assertEqual(limits["read"][0]["threads"], 1)
        self.assertEqual(limits["read"][-1]["threads"], m["threads"])
        text = self.good("cpu")
        for word in (m["model"], "quota", "memory", "scalar", "barrier", "What it means"):
            self.assertIn(word, text)
        self.bad(["cpu", "x"], "too much")

    def test_profile(self):
        trace = os.path.join(self.dir.name, "trace.json")
        o = json.loads(self.good("profile", MODEL, "-p", 32, "-n", 8, "--depth", 16, "--trace", trace, "--json"))
        self.assertEqual([f["phase"] for f in o["phases"]], ["prefill", "decode"])
        for f in o["phases"]:
            self.assertIn(f["bottleneck"], ("memory", "arithmetic", "waiting", "operator"))
            parts = sum(op["ms"] for op in f["operators"]) + f["waiting_ms"] + f["outside_ms"]
            self.assertAlmostEqual(parts / f["ms"], 1, delta=0.02)
            for a in f["advice"]:
                self.assertGreater(a["gain"], 1)
        with open(trace, encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        for e in events:
            self.assertIn(e["ph"], "XM")
            if e["ph"] == "X":
                self.assertGreaterEqual(e["dur"], 0)
        self.assertIn("matmul", {e["name"] for e in events})
        text = self.good("profile", MODEL, "-p", 0, "-n", 4, "-b", 2)
        for word in ("decode", "of each of 2 sequences", "waiting at barriers", "Bottleneck", "of limit"):
            self.assertIn(word, text)
        self.bad(["profile", MODEL, "-p", "0", "-n", "0"], "nothing")
        self.bad(["profile", MODEL, "-d", "1,2"], "depth")
        self.bad(["profile", MODEL, "--trace", "/nonexistent/t"], "/nonexistent/t")
        self.bad(["profile", "/nonexistent/m.gguf"], "/nonexistent/m.gguf")

    def test_packed_cache(self):
        model = os.path.join(self.dir.name, "model.gguf")
        shutil.copy(MODEL, model)
        args = ["hello", "-n", 12, "--temp", 0, "--ignore-eos"]
        want = self.good("run", MODEL, *args)
        for _ in range(2):
            self.assertEqual(self.good("run", model, "--packed-cache", *args), want)
            beside = [f for f in os.listdir(self.dir.name) if f.endswith(".packed")]
            self.assertEqual(len(beside), 1)
        self.assertEqual(self.good("run", model, "--packed-cache", "--weights", "q8_0", *args),
                         self.good("run", MODEL, "--weights", "q8_0", *args))
        kept = os.path.join(self.dir.name, beside[0])
        with open(kept, "r+b") as f:
            f.seek(-100, os.SEEK_END)
            f.write(b"x" * 50)
        self.assertEqual(self.good("run", model, "--packed-cache", *args), want)

    def test_threads(self):
        want = self.good("run", MODEL, "hello", "-n", 12, "--temp", 0, "--ignore-eos", "-t", 1)
        for more in (["-t", 2], ["-t", 2, "--threads-decode", 1], ["--threads-decode", 3], []):
            self.assertEqual(self.good("run", MODEL, "hello", "-n", 12, "--temp", 0, "--ignore-eos", *more), want)
        self.bad(["run", MODEL, "x", "--threads-decode", "257"], "257")


if __name__ == "__main__":
    HAYATE = sys.argv.pop(1)
    unittest.main()
