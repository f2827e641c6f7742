"""The benches' scripts: the tables agree with the results, the roofline is right, and vs-peers runs, stops and goes on.
Usage: test_bench.py HAYATE"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import common

HAYATE = ""
BENCH = os.path.join(common.ROOT, "bench")
sys.path.insert(0, BENCH)
import engines  # noqa: E402
import models  # noqa: E402
import report  # noqa: E402
import results  # noqa: E402
import spec  # noqa: E402
import spec_report  # noqa: E402


def made_up():
    """Results by hand, with round numbers."""
    return {
        "machine": {"model": "Test CPU", "isa": "avx2", "date": "2026-01-02", "processors_allowed": 2, "cores_allowed": 2,
                    "memory_bytes": 8 << 30, "kernel": "6.1"},
        "limits": {"read": [{"threads": 2, "memory": 10e9, "l3": 50e9}],
                   "operations": [{"isa": "avx2", "int8_all": 400e9, "f32_all": 200e9}]},
        "threads": 2, "commit": "abc", "loads": [0.1, 0.3], "done": [], "failed": {},
        "engines": {"hayate": {"version": "0.1"}, "llama": {"version": "x (1)"}, "ik": {"version": "y (2)"}},
        "models": {"m": {"weights": 100e6, "weights_last": 10e6, "token_bytes": 100e6, "layers": 10, "kv_heads": 2, "heads": 4,
                         "d_head": 64, "window": 0, "window_every": 0, "floats": False}},
        "cells": {"m|hayate|tg@0": [50, 60, 40], "m|llama|tg@0": [25], "m|ik|tg@0": [40], "m|hayate|pp128": [500],
                  "m|llama|pp128": [1000], "m|hayate|rss_mib": [200], "m|llama|rss_mib": [150], "m|hayate|b8": [300]},
    }


class Bench(unittest.TestCase):
    def test_document(self):
        r = subprocess.run([sys.executable, "-B", os.path.join(BENCH, "report.py"), "--check"], capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)

    def test_document_is_checked(self):
        """A number that was changed in the text, or a result that was, is noticed."""
        _, old, _ = report.tables.parts("performance.md", "bench/report.py")
        self.assertEqual(old, report.generated())
        with tempfile.TemporaryDirectory() as d:
            folder, results.FOLDER = results.FOLDER, d
            try:
                results.save(os.path.join(d, "x.json"), made_up())
                self.assertNotEqual(old, report.generated())
                first = report.generated()
                other = made_up()
                other["cells"]["m|llama|tg@0"] = [26]
                results.save(os.path.join(d, "x.json"), other)
                self.assertNotEqual(first, report.generated())
            finally:
                results.FOLDER = folder

    def test_roofline(self):
        d = made_up()
        self.assertAlmostEqual(results.best(d, "m", "tg@0"), 100)  # 100 MB at 10 GB/s
        kv = 10 * 2 * 64 * 2 * 2 * 512  # layers, heads, size, K and V, bytes, tokens
        self.assertAlmostEqual(results.best(d, "m", "tg@512"), 10e9 / (100e6 + kv))
        # 128 tokens: 2 operations a weight, the output once, and attention's pairs in floats
        pairs = 128 * 129 / 2 * 10 * 4 * 4 * 64
        self.assertAlmostEqual(results.best(d, "m", "pp128"), 128 / ((2 * 100e6 * 128 + 2 * 10e6) / 400e9 + pairs / 200e9))
        t_mem = (100e6 + 8 * results.kv_bytes(d["models"]["m"], 24)) / 10e9
        self.assertAlmostEqual(results.best(d, "m", "b8"), 8 / t_mem)
        self.assertAlmostEqual(results.best(d, "m", "b32"), 32 / max((100e6 + 32 * results.kv_bytes(d["models"]["m"], 24)) / 10e9,
                                                                   32 * 2 * 110e6 / 400e9))
        self.assertIsNone(results.best(d, "m", "rss_mib"))
        d["models"]["m"].update(window=512, window_every=5)  # two layers of ten see everything
        self.assertEqual(results.kv_bytes(d["models"]["m"], 4096), 2 * 64 * 4 * (2 * 4096 + 8 * 512))

    def test_ratios(self):
        d = made_up()
        self.assertEqual(results.ratio(d, "m", "tg@0"), (50 / 40, "ik"))  # medians, against the better peer
        self.assertEqual(results.ratio(d, "m", "pp128"), (0.5, "llama"))
        self.assertEqual(results.ratio(d, "m", "rss_mib"), (0.75, "llama"))  # less is better
        self.assertIsNone(results.ratio(d, "m", "b8"))

    def test_table(self):
        d = made_up()
        text = report.table(d, ["pp128", "tg@0"])
        self.assertIn("| m | decode | 50.0 (40.0–60.0) | 50 % | 25.0 · 25 % | 40.0 · 40 % | 1.25 |", text)
        self.assertIn("**0.50**", text)
        behind = report.behind(d, {"m|pp128": "Because of this."}, "here")
        self.assertIn("prefill of 128: 0.50 of llama. Because of this.", behind)
        self.assertIn("peak memory: 0.75 of llama. Not explained yet.", behind)
        self.assertNotIn("decode", behind)
        notes = {"m|pp128": "Because of this.", "there|m|pp128": "Not here.", "here|m|": "A reason of this machine's."}
        behind = report.behind(d, notes, "here")
        self.assertIn("prefill of 128: 0.50 of llama. A reason of this machine's.", behind)
        self.assertIn("peak memory: 0.75 of llama. A reason of this machine's.", behind)
        self.assertIn("Because of this.", report.behind(d, notes, "elsewhere"))
        self.assertIn("Test CPU", report.machine(d))

    def test_speculation(self):
        """Counts of answers, the speed that costs promise, and the tables."""
        told = [{"predicted_n": 8, "draft_n_at": [3, 2], "draft_n_accepted_at": [2, 1]}, {"predicted_n": 5}]
        t = spec.total(told)
        self.assertEqual((t["tokens_seen"], t["answers"], t["drafted"], t["accepted"]), (13, 2, 5, 3))
        self.assertEqual((t["drafted_at"], t["accepted_at"]), ([3, 2], [2, 1]))
        costs = {"model": {"ms": 10, "rows": {"1": 1, "2": 1.1, "4": 1.5}}, "drafter": {"ms": 2, "rows": {"1": 1}}}
        # 8 steps give 11 tokens: 5 plain ones, one with a drafted token, two with two (1.3 by the line from 2 rows to 4)
        self.assertAlmostEqual(spec.by_costs(costs, t), 11 / (5 + (1.1 + 0.2) + 2 * (1.3 + 0.4)))
        row = {"model": "pad-bf16", "who": "self", "task": "chat@1", "streams": 1, "off": 10, "on": 17, "gain": 1.7, "gain_least": 1.6,
               "gain_most": 1.8, "acceptance": 0.6, "first": 2 / 3, "by_costs": 1.75, **t}
        data = {"table": [row], "costs": {"pad-bf16 self": costs}, "replay": [
            {"kind": "edit", "tokens": 90, "steps": 30, "drafted": 80, "accepted": 60, "off_ms": 300, "on_ms": 100, "gain": 3.0},
            {"kind": "edit", "tokens": 50, "steps": 10, "drafted": 50, "accepted": 40, "off_ms": 100, "on_ms": 100, "gain": 1.0}]}
        self.assertIn("| 1 B, BF16 | self | chat at temperature 1 | 1 | 10.0 | 17.0 | **1.70** (1.60–1.80) | 0.60 | 0.67 | 1.7 | 1.75 |",
                      spec_report.speeds(data))
        self.assertIn("| edit | 2 | 4.0 | 0.77 | **2.00** | 1.00 |", spec_report.replayed(data))
        self.assertIn("| 1 B, BF16 | self | 10.0 | 1.10 |  |  |  |  | 0.20 |", spec_report.costs(data))

    def test_facts(self):
        f = models.facts(common.MODEL)
        h = models.Head(common.MODEL)
        self.assertEqual(f["arch"], "llama")
        self.assertEqual(f["layers"], h.number("llama.block_count"))
        self.assertTrue(f["floats"])  # a bf16 file: two bytes a weight
        self.assertEqual(f["token_bytes"], 2 * (f["weights"] + f["weights_last"]))
        info = json.loads(common.run(self, HAYATE, "info", common.MODEL, "--json").stdout)
        self.assertEqual(info["shape"]["layers"], f["layers"])

    def test_batched_output(self):
        """The table that llama-batched-bench prints."""
        e = engines.Llama("llama", "/nowhere", 2)
        self.assertFalse(e.there())
        old = engines.call
        engines.call = lambda *a, **k: ("main: n_kv_max = 2048\n\n|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s |"
                                       " S_TG t/s |      T s |    S t/s |\n|-------|--------|------|\n|    16 |     16 |    1 |"
                                       "     32 |    0.041 |   390.24 |    0.120 |   133.33 |    0.161 |   198.76 |\n")
        try:
            self.assertEqual(e.batch("m"), {"b1": [133.33]})
        finally:
            engines.call = old

    def test_runs_stops_goes_on(self):
        """The whole, with the tiny model in the place of the real ones."""
        with tempfile.TemporaryDirectory() as d:
            out = os.path.join(d, "r.json")
            code = ("import runpy, sys; sys.path.insert(0, %r); import models, engines\n"
                    "models.MODELS = {'tiny': ('fetch', '')}; models.ensure = lambda *a: %r\n"
                    "engines.BATCHES = (1, 2); sys.argv = ['vs-peers'] + sys.argv[1:]\n"
                    "runpy.run_path(%r, run_name='__main__')" % (BENCH, common.MODEL, os.path.join(BENCH, "vs-peers")))
            env = common.clean_env(HAYATE_CACHE=d)

            def go(*more):
                return subprocess.run([sys.executable, "-B", "-c", code, "--hayate", HAYATE, "--models", "tiny", "--quick", "--out",
                                       out] + list(more), capture_output=True, text=True, env=env, timeout=300)
            r = go("--minutes", "0.001")
            self.assertEqual(r.returncode, 3, r.stdout + r.stderr)
            self.assertIn("goes on from here", r.stdout)
            self.assertEqual(results.load(out)["done"], [])
            r = go()
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
            data = results.load(out)
            self.assertEqual(data["failed"], {}, data["failed"])
            self.assertEqual(len(data["cells"]["tiny|hayate|pp128"]), 2)
            self.assertEqual(len(data["cells"]["tiny|hayate|b2"]), 1)
            self.assertIn("skipped: engine llama", r.stdout)
            r = go()  # nothing is left to do
            self.assertNotIn("[1/", r.stdout)
            self.assertEqual(results.load(out)["cells"], data["cells"])
            self.assertIn("prefill of 512", go("--report").stdout)
            r = go("--fresh", "--groups", "batch")  # of the shapes only those
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
            self.assertEqual(sorted(results.load(out)["cells"]), ["tiny|hayate|b1", "tiny|hayate|b2"])
            self.assertIn("not known: much", go("--groups", "much").stderr)


if __name__ == "__main__":
    HAYATE = os.path.abspath(sys.argv.pop(1))
    unittest.main()
