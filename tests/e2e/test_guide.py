"""The guide's proofs: what the docs say of tune, fusion and profiling is what bench/results hold; their scripts run, judge as they
should and go on where they stopped. Nothing here depends on how fast anything is.
Usage: test_guide.py HAYATE"""
import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest

import common
from common import MODEL, ROOT

HAYATE = ""
BENCH, TOOLS = os.path.join(ROOT, "bench"), os.path.join(ROOT, "tools")
sys.path[:0] = [BENCH, TOOLS]
import guide  # noqa: E402
import tables  # noqa: E402
import tune as proof  # noqa: E402

MACHINE = {"cpu": "Test CPU", "cores": 2, "time": "2026-01-02"}
SPAN = {"median": 1.25, "low": 1.2, "high": 1.3}
TUNE = {"machine": MACHINE, "hayate": "hayate 0.1",
        "rows": [{"model": "m.gguf", "goal": "throughput", "unit": "tokens/s", "settings": {"speculate": "ngram", "step": "64"},
                  "load": 0.2, "verdict": "better",
                  "check": {"rounds": 7, "ratio": SPAN, "same": {"median": 1.01, "low": 0.98, "high": 1.02}, "defaults": 80.0,
                            "tuned": 100.0, "verdict": "better", "beside": {}}},
                 {"model": "m.gguf", "goal": "memory", "unit": "MiB", "settings": {}, "load": 0.4, "verdict": "equal"}],
        "half_core": {"how": "real", "quota": "0.50", "threads": {"ttft": {"threads": "1", "threads-decode": "1"}},
                      "speeds": {"pp": {"1": [10, 30, 20], "2": [5, 7, 6]}}}}


def form(ttft, itl, act, prompt_act, norm):
    return {"ttft_ms": ttft, "itl_ms": itl, "spread": {}, "repeats": 9, "quality": {"same_bits": True, "kl": None},
            "extra": {"prompt": 256, "instructions": 3, "activation_bytes": act, "weight_bytes": 9e6, "prompt_activation_bytes": prompt_act,
                      "prompt_weight_bytes": 10e6,
                      "operators": {"norm": {"number": norm, "bytes": prompt_act / 4}, "matmul": {"number": 5, "bytes": 3 * prompt_act / 4}}}}


FUSION = {"machine": MACHINE, "hayate": "0.1", "isa": "avx2", "threads": 2, "threads_decode": 1, "load": 0.1,
          "rows": [{"model": "m.gguf (q4_1)", "off": form(200, 4, 1e6, 40e6, 7), "on": form(150, 3, 0.5e6, 30e6, 2)}]}
COST = {"more_pct": 0.5, "low_pct": 0.25, "high_pct": 0.75}
OVERHEAD = {"machine": MACHINE, "load": 0.1, "seconds": 20,
            "rows": [{"model": "m.gguf", "phase": "prefill", "tokens": 128, "rounds": 50, "threads": 2, "isa": "avx2", "never_us": 12500,
                      "again": COST, "off": dict(COST, more_pct=-0.125), "on": dict(COST, more_pct=2), "trace": COST}]}


class Docs(unittest.TestCase):
    def made_of(self, name, data, make):
        """The text that is made of a result."""
        with tempfile.TemporaryDirectory() as d:
            folder, tables.RESULTS = tables.RESULTS, d
            try:
                if data is not None:
                    with open(os.path.join(d, name + ".json"), "w", encoding="utf-8") as f:
                        json.dump(data, f)
                return make()
            finally:
                tables.RESULTS = folder

    def test_docs_say_what_is_committed(self):
        r = subprocess.run([sys.executable, "-B", os.path.join(TOOLS, "guide.py"), "--check"], capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)

    def test_other_numbers_are_seen(self):
        for name, data, make in (("tune", TUNE, guide.tune), ("fusion", FUSION, guide.fusion), ("overhead", OVERHEAD, guide.overhead)):
            first = self.made_of(name, data, make)
            self.assertIn("No" if name != "overhead" else "Not", self.made_of(name, None, make))
            other = copy.deepcopy(data)
            row = other["rows"][0]
            row["check" if name == "tune" else "on"].update({"tuned": 105.0, "ttft_ms": 160, "more_pct": 2.5})
            self.assertNotEqual(first, self.made_of(name, other, make), name)

    def test_tune(self):
        text = self.made_of("tune", TUNE, guide.tune)
        self.assertIn("| m.gguf | throughput | speculate ngram, step 64 | 80.0 tokens/s | 100 tokens/s | 1.250 (1.200 to 1.300) | "
                      "1.010 (0.980 to 1.020) | better |", text)
        self.assertIn("| m.gguf | memory | the defaults |  |  | 1 (nothing is set) |  | equal |", text)
        self.assertIn("load before the searches: median 0.3, most 0.4", text)
        self.assertIn("it takes 1 thread for prompts", text)
        self.assertIn("one thread runs prompts at 20.0 tokens/s, two at 6.00", text)
        bad = copy.deepcopy(TUNE)
        bad["rows"][0]["verdict"] = "worse"
        bad["half_core"]["threads"]["ttft"]["threads"] = "2"
        text = self.made_of("tune", bad, guide.tune)
        self.assertIn("**worse**", text)
        self.assertIn("it takes 1 or 2 threads", text)

    def test_fusion(self):
        text = self.made_of("fusion", FUSION, guide.fusion)
        self.assertIn("| m.gguf (q4_1) | 256 | 200 → 150 ms (-25.0 %) | 4.00 → 3.00 ms (-25.0 %) | 9 | the same bits |", text)
        # 40 and 10 MB against 30 and 10; 1 and 9 against 0.5 and 9
        self.assertIn("| 40.0 → 30.0 MB (-25.0 %) | -20.0 % | 1.00 → 0.50 MB (-50.0 %) | -5.0 % |", text)
        self.assertIn("| m.gguf (q4_1) | one by one | 12 | matmul 75 %, norm 25 % |", text)
        self.assertIn("|  | fused | 7 | matmul 56 %, norm 19 % |", text)

    def test_overhead(self):
        text = self.made_of("overhead", OVERHEAD, guide.overhead)
        self.assertIn("| m.gguf | a prompt of 128 | 12.5 ms | -0.12 % (+0.25 to +0.75) | +2.00 % (+0.25 to +0.75) |", text)

    def test_committed_results_keep_the_promises(self):
        """Whatever was measured last: nowhere worse, one thread on half a core, and all that was asked for."""
        d = guide.result("tune")
        if d is None:
            print("skipped: no bench/results/tune.json")
        else:
            self.assertEqual({r["goal"] for r in d["rows"]}, {"ttft", "throughput", "memory"})
            self.assertEqual(len(d["rows"]), 3 * len({r["model"] for r in d["rows"]}))
            for r in d["rows"]:
                self.assertIn(r["verdict"], ("better", "equal"), r["model"] + ", " + r["goal"])
            for goal in d["half_core"].get("threads", {}).values():
                self.assertEqual(set(goal.values()), {"1"})
        d = guide.result("fusion")
        if d is None:
            print("skipped: no bench/results/fusion.json")
        else:
            self.assertEqual(len(d["rows"]), 3)
            for r in d["rows"]:
                self.assertTrue(r["on"]["quality"]["same_bits"], r["model"])


class Proof(unittest.TestCase):
    def test_interval(self):
        self.assertEqual(proof.interval([3, 1, 2]), {"median": 2, "low": 1, "high": 3})
        v = [(i * 7) % 15 for i in range(15)]  # 0 to 14
        # the 95 % interval of a median of 15 by ranks: from the 4th to the 12th (binomial tables)
        got = proof.interval(v)
        self.assertEqual(got["median"], 7)
        self.assertLessEqual(got["low"], 3)
        self.assertGreaterEqual(got["high"], 11)

    def test_verdict(self):
        calm, wild = {"median": 1.0, "low": 0.99, "high": 1.01}, {"median": 1.02, "low": 0.9, "high": 1.1}
        span = lambda low, mid, high: {"median": mid, "low": low, "high": high}
        self.assertEqual(proof.verdict(span(1.08, 1.1, 1.12), calm), "better")
        self.assertEqual(proof.verdict(span(0.98, 1.1, 1.2), calm), "equal")   # the interval holds 1
        self.assertEqual(proof.verdict(span(1.001, 1.005, 1.008), calm), "equal")  # smaller than the noise
        self.assertEqual(proof.verdict(span(0.9, 0.92, 0.95), calm), "worse")
        self.assertEqual(proof.verdict(span(0.9, 0.92, 0.95), wild), "worse")  # noise hides no loss of more than 5 %
        self.assertEqual(proof.verdict(span(0.96, 0.97, 0.99), wild), "equal")

    def test_gain(self):
        self.assertEqual(proof.gain("throughput", 50, 100), 2)
        self.assertEqual(proof.gain("ttft", 50, 100), 0.5)
        self.assertEqual(proof.gain("memory", 100, 50), 2)

    def test_check(self):
        """Two servers, one of them with settings from a file: what they say is compared, and the settings are used."""
        class A:
            hayate = HAYATE
        config = self.config()
        cache = os.environ.get("HAYATE_CACHE")
        with tempfile.TemporaryDirectory() as d:
            os.environ["HAYATE_CACHE"] = d
            try:
                c = proof.check(A, MODEL, "memory", config + "step = 16\n", 0)
            finally:
                os.environ.pop("HAYATE_CACHE")
                if cache is not None:
                    os.environ["HAYATE_CACHE"] = cache
        self.assertEqual(c["rounds"], 3)
        self.assertEqual(set(c["beside"]), {"ttft", "throughput"})
        self.assertLess(c["tuned"], c["defaults"])  # steps of 16 tokens need less working memory than those of 256
        self.assertGreater(c["ratio"]["low"], 1)
        self.assertAlmostEqual(c["ratio"]["median"], c["defaults"] / c["tuned"], delta=0.02)

    def config(self):
        """The head of a file that tune writes here."""
        with tempfile.TemporaryDirectory() as d:
            out = os.path.join(d, "x.conf")
            _, r = common.long_enough(lambda minutes: common.run(
                self, HAYATE, "tune", MODEL, "--goal", "ttft", "--minutes", minutes, "-p", "16", "--out", out,
                env={"HAYATE_CACHE": d}), (0.02, 0.2, 2))
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(out, encoding="utf-8") as f:
                return "".join(line for line in f if line.startswith("#!"))

    def script(self, name, *args):
        r = subprocess.run([sys.executable, "-B", os.path.join(BENCH, name), HAYATE, MODEL, *map(str, args)], capture_output=True,
                           text=True, timeout=900, env=common.clean_env())
        return r

    def test_proof_runs_and_goes_on(self):
        with tempfile.TemporaryDirectory() as d:
            out = os.path.join(d, "tune.json")
            for goals in (["ttft"], ["ttft", "memory"]):
                r = self.script("tune.py", "--goals", *goals, "--minutes", "1", "--out", out)
                self.assertIn(r.returncode, (0, 1), r.stdout + r.stderr)
                with open(out, encoding="utf-8") as f:
                    data = json.load(f)
                self.assertEqual([row["goal"] for row in data["rows"]], goals)
                if len(goals) == 1:
                    first = data
                for row in data["rows"]:
                    self.assertEqual("check" in row, bool(row["settings"]), row)
                    self.assertIn(row["verdict"], ("better", "equal", "worse"))
            self.assertEqual(data["rows"][0], first["rows"][0])  # not measured again
            self.assertEqual(data["half_core"], first["half_core"])
            h = data["half_core"]
            if "skipped" in h:
                print("skipped: " + h["skipped"])
                return
            self.assertEqual(h["quota"], "0.50")
            for goal in ("ttft", "throughput", "memory"):
                self.assertEqual(set(h["threads"][goal].values()), {"1"})
            self.assertEqual(set(h["speeds"]) if h["how"] == "real" else {"pp", "tg"}, {"pp", "tg"})

    def test_fusion_runs(self):
        with tempfile.TemporaryDirectory() as d:
            out = os.path.join(d, "fusion.json")
            r = self.script("fusion.py", "--minutes", "0.03", "--out", out)
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
            with open(out, encoding="utf-8") as f:
                rows = json.load(f)["rows"]
        self.assertEqual([row["model"] for row in rows], ["model-bf16.gguf (bf16)", "the shape of GPT-2 (q8_0)"])
        for row in rows:
            off, on = row["off"]["extra"], row["on"]["extra"]
            self.assertTrue(row["on"]["quality"]["same_bits"], row["model"])
            for what in ("activation_bytes", "prompt_activation_bytes"):
                self.assertLess(on[what], off[what], (row["model"], what))
            for what in ("weight_bytes", "prompt_weight_bytes", "prompt"):
                self.assertEqual(on[what], off[what], (row["model"], what))  # the same weights, keys and values
            self.assertLess(on["instructions"], off["instructions"])
            for x in (off, on):
                self.assertEqual(sum(o["bytes"] for o in x["operators"].values()), x["prompt_activation_bytes"])


if __name__ == "__main__":
    HAYATE = os.path.abspath(sys.argv.pop(1))
    unittest.main()
