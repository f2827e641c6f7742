"""hayate bench --ablation from outside: table, JSON, CSV and HTML say the same; docs/techniques.md says what is committed.
Usage: test_ablation.py HAYATE"""
import csv
import html.parser
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import common
from common import MODEL, ROOT

HAYATE = ""
TECHNIQUES = {"kv_cache", "attention", "fusion", "weights", "activations", "kv_type", "paged", "prefix_cache", "chunked_prefill",
              "batching", "speculation", "threads", "huge_pages"}
BESIDE = ("ttft", "itl", "tokens_s")


def short(v):
    """A number as table and report show it."""
    if abs(v) >= 99.5:
        return "%.0f" % v
    if abs(v) >= 9.95:
        return "%.1f" % v
    return "%.2f" % v if abs(v) >= 0.1 or v == 0 else "%.2g" % v


class Page(html.parser.HTMLParser):
    """Cells of every table row (without what is small), attributes that could ask for something, text."""
    def __init__(self):
        super().__init__()
        self.rows, self.asks, self.tags, self.skip, self.cell = [], [], [], 0, None

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.asks += [(tag, k, v) for k, v in attrs if k in ("src", "href", "srcset", "action", "data", "poster", "xlink:href")]
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.cell = ""
        if tag == "small":
            self.skip += 1

    def handle_endtag(self, tag):
        if tag == "small":
            self.skip -= 1
        if tag == "td":
            self.rows[-1].append(self.cell)
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None and not self.skip:
            self.cell += data


class Ablation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.env = {"HAYATE_CACHE": cls.dir.name}
        cls.base = os.path.join(cls.dir.name, "report")

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def test_all(self):
        r = common.run(self, HAYATE, "bench", MODEL, "--ablation", "--minutes", 0.02, "-t", 2, "--out", self.base, "--draft", MODEL,
                       env=self.env, timeout=1500)
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(self.base + ".json", encoding="utf-8") as f:
            o = json.load(f)
        self.check_json(o)
        self.check_csv(o)
        self.check_page(o)
        self.check_table(o, r.stdout)
        kept = [n for n in os.listdir(os.path.join(self.dir.name, "hayate")) if n.startswith("ablation-")]
        self.assertEqual(len(kept), 1, kept) # and no model left behind
        with open(os.path.join(self.dir.name, "hayate", kept[0]), encoding="utf-8") as f:
            self.assertEqual(json.load(f)["ablation"], o)

    def check_json(self, o):
        self.assertTrue(o["complete"])
        self.assertEqual({r["technique"] for r in o["rows"]}, TECHNIQUES)
        self.assertEqual(o["model"]["file"], os.path.basename(MODEL))
        self.assertEqual(o["model"]["weights"], "bf16")
        self.assertEqual(o["machine"]["threads"], 2)
        of = {}
        for r in o["rows"]:
            what = (r["technique"], r["setting"])
            of.setdefault((r["technique"], r["baseline"]), []).append(r)
            self.assertIn(r["baseline"], ("best", "plain", "gpt2"))
            self.assertTrue(r["when"] and r["when_not"], what)
            self.assertIsNot(r["quality"]["same_bits"], False, what)
            self.assertGreater(r["repeats"], 0, what)
            for key in ("ttft_ms", "itl_ms", "tokens_s"):
                if r[key] is not None:
                    least, most = r["spread"][key]
                    self.assertTrue(0 < least <= r[key] <= most, (what, key))
        for (technique, baseline), rows in of.items():
            if technique in ("speculation", "paged", "batching", "chunked_prefill"):
                continue
            first = rows[0]
            self.assertIsNone(first["gain"], (technique, baseline))
            for r in rows[1:]:
                self.assertIn(r["gain"]["what"], BESIDE)
                key = r["gain"]["what"] + "_ms"
                self.assertAlmostEqual(r["gain"]["ratio"] / (first[key] / r[key]), 1, delta=0.01, msg=(technique, r["setting"]))
        weights = {r["setting"]: r for r in of["weights", "best"]}
        self.assertLess(weights["q8_0"]["memory_mib"], weights["f32"]["memory_mib"])
        self.assertLess(abs(weights["f32"]["quality"]["kl"]), weights["q8_0"]["quality"]["kl"])
        self.assertLess(weights["q8_0"]["quality"]["kl"], weights["q4_0"]["quality"]["kl"])
        kv = {r["setting"]: r["extra"]["bytes_a_token"] for r in of["kv_type", "best"]}
        with open(os.path.join(common.LLAMA, "hf", "config.json"), encoding="utf-8") as f:
            c = json.load(f)
        d = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
        self.assertEqual(kv["f32"], 2 * 4 * d * c["num_key_value_heads"] * c["num_hidden_layers"])
        self.assertEqual(kv["f16"] * 2, kv["f32"])
        tasks = {(r["extra"]["who"], r["extra"]["task"]) for r in of["speculation", "best"]}
        self.assertLessEqual({(w, t) for w in ("off", "ngram", "draft", "self") for t in ("chat", "copy", "edit", "JSON")}, tasks)
        for name in ("kv_cache", "attention", "streams", "threads", "ladder"):
            self.assertGreater(len(o["curves"][name]), 1, name)
        self.assertEqual([p["streams"] for p in o["curves"]["streams"]], [1, 2, 4, 8, 16, 32])
        for p in o["curves"]["kv_cache"]:
            self.assertAlmostEqual(p["ratio"] / (p["off_ms"] / p["on_ms"]), 1, delta=0.01)
        claims = {c["claim"] for c in o["claims"]}
        self.assertLessEqual({"KV cache", "fusion, latency", "fusion, traffic", "INT8 weights", "speculation"}, claims)

    def check_csv(self, o):
        with open(self.base + ".csv", encoding="utf-8", newline="") as f:
            lines = list(csv.DictReader(f))
        self.assertEqual(len(lines), len(o["rows"]))
        for line, r in zip(lines, o["rows"]):
            numbers = {"ttft_ms": r["ttft_ms"], "itl_ms": r["itl_ms"], "tokens_s": r["tokens_s"], "memory_mib": r["memory_mib"],
                       "ppl_delta_pct": r["quality"]["ppl_delta_pct"], "kl": r["quality"]["kl"], "repeats": r["repeats"],
                       "gain": r["gain"] and r["gain"]["ratio"],
                       "itl_least": r["spread"]["itl_ms"] and r["spread"]["itl_ms"][0],
                       "ttft_most": r["spread"]["ttft_ms"] and r["spread"]["ttft_ms"][1]}
            for key, want in numbers.items():
                self.assertEqual(float(line[key]) if line[key] else None, want, (r["setting"], key))
            for key in ("technique", "setting", "baseline", "group", "when", "when_not"):
                self.assertEqual(line[key], r[key])

    def check_page(self, o):
        with open(self.base + ".html", encoding="utf-8") as f:
            text = f.read()
        page = Page()
        page.feed(text)
        self.assertEqual(page.asks, []) # nothing that could ask for anything
        self.assertFalse({"script", "link", "img", "iframe", "object", "embed"} & set(page.tags))
        self.assertNotRegex(text, r"(?i)https?://|url\(|@import")
        self.assertIn("prefers-color-scheme:dark", text)
        self.assertGreaterEqual(page.tags.count("svg"), 8)
        guide = [r for r in page.rows if len(r) == 9] # one row a technique, in the order of the run
        for cells in guide:
            self.assertTrue(cells[1] and cells[7] and cells[8], cells)
        self.assertLessEqual(len(guide), len(TECHNIQUES))
        self.assertIn("KV cache", [cells[0] for cells in guide])
        of = [r for r in o["rows"] if r["technique"] == "kv_cache" and r["baseline"] == "best"]
        pair = [short(r["memory_mib"]) for r in of]
        want = pair[0] if pair[0] == pair[1] else " → ".join(pair)
        self.assertIn(want, [cells[5] for cells in guide if cells[0] == "KV cache"])
        rows = [r for r in page.rows if len(r) == 7]
        want = sorted(o["rows"], key=lambda r: [x["technique"] for x in o["rows"]].index(r["technique"]))
        self.assertEqual(len(rows), len(want))
        for cells, r in zip(rows, want):
            self.assertEqual(cells[0], r["setting"])
            for i, key in enumerate(("ttft_ms", "itl_ms", "tokens_s", "memory_mib")):
                self.assertEqual(cells[1 + i], "–" if r[key] is None else short(r[key]), (r["setting"], key))
            if r["gain"]:
                self.assertTrue(cells[6].startswith(short(r["gain"]["ratio"]) + " x "), cells)

    def check_table(self, o, out):
        for line in out.splitlines():
            self.assertLessEqual(len(line), 100, line)
        for r in o["rows"]:
            if r["itl_ms"] is not None:
                self.assertRegex(out, r"(?m)^  %s .*%s" % (re.escape(r["setting"][:19]), "<0.01" if r["itl_ms"] < 0.01 else re.escape(short(r["itl_ms"]))))
        for c in o["claims"]:
            self.assertIn(c["said"], out)

    def test_interrupted(self):
        """The first Ctrl-C leaves a report of what is done."""
        base = os.path.join(self.dir.name, "cut")
        p = subprocess.Popen([HAYATE, "bench", MODEL, "--ablation", "--minutes", "600", "-t", "1", "--json", "--out", base],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=common.clean_env(HAYATE_CACHE=self.dir.name + "/2"))
        common.listens(p)
        time.sleep(1)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=600)
        self.assertEqual(p.returncode, 130, err)
        self.assertIn(b"cancelled", err)
        if not out: # stopped before the model was there
            return
        o = json.loads(out)
        self.assertFalse(o["complete"])
        with open(base + ".json", encoding="utf-8") as f:
            self.assertEqual(json.load(f), o)
        with open(base + ".html", encoding="utf-8") as f:
            self.assertIn("Interrupted", f.read())

    def test_only(self):
        """Some techniques alone; what is kept of the whole stays."""
        with tempfile.TemporaryDirectory() as d:
            r = common.run(self, HAYATE, "bench", MODEL, "--ablation", "--minutes", 0.02, "-t", 1, "--json", "--only", "fusion,threads",
                           env={"HAYATE_CACHE": d}, timeout=600)
            self.assertEqual(r.returncode, 0, r.stderr)
            kept = os.listdir(os.path.join(d, "hayate")) if os.path.isdir(os.path.join(d, "hayate")) else []
            self.assertEqual([n for n in kept if n.startswith("ablation-")], [])
        o = json.loads(r.stdout)
        self.assertEqual(o["settings"]["only"], "fusion,threads")
        self.assertEqual([(x["technique"], x["setting"]) for x in o["rows"]], [("fusion", "off"), ("fusion", "on"), ("fusion", "off"),
                                                                            ("fusion", "on"), ("threads", "1")])
        for off, on in ((0, 1), (2, 3)):
            x, y = o["rows"][off]["extra"], o["rows"][on]["extra"]
            self.assertIs(o["rows"][on]["quality"]["same_bits"], True)
            self.assertLess(y["prompt_activation_bytes"], x["prompt_activation_bytes"])
            self.assertEqual(y["prompt_weight_bytes"], x["prompt_weight_bytes"])
        traffic = [c for c in o["claims"] if c["claim"] == "fusion, traffic"]
        self.assertAlmostEqual(traffic[0]["value"], 100 * (1 - o["rows"][1]["extra"]["prompt_activation_bytes"] /
                                                           o["rows"][0]["extra"]["prompt_activation_bytes"]), delta=0.01)

    def test_errors(self):
        for args, word in (([MODEL, "--only", "fusion,,x"], "only"), ([MODEL, "--only", "magic"], "kv_cache"),
                           ([MODEL, "--minutes", "x"], "minutes"), (["/nonexistent/m.gguf"], "/nonexistent/m.gguf"),
                           ([MODEL, "--text", "/nonexistent/t"], "/nonexistent/t")):
            r = common.run(self, HAYATE, "bench", "--ablation", *args, env=self.env)
            self.assertIn(r.returncode, (1, 2))
            self.assertEqual(r.stdout, "")
            self.assertIn(word, r.stderr)

    def test_forms_to_be_measured(self):
        args = ["run", MODEL, "hello", "-n", 12, "--temp", 0, "--ignore-eos", "-t", 1]
        want = common.run(self, HAYATE, *args, env=self.env).stdout
        for more in (["--attention", "materialised"], ["--no-huge-pages"], ["--weights", "f32", "--weights-all"]):
            r = common.run(self, HAYATE, *args, *more, env=self.env)
            self.assertEqual((r.returncode, r.stdout), (0, want), more) # bf16 weights: f32 holds them exactly
        r = common.run(self, HAYATE, *args, "--attention", "x", env=self.env)
        self.assertEqual(r.returncode, 1)
        self.assertIn("materialised", r.stderr)


class Techniques(unittest.TestCase):
    TOOL = os.path.join(ROOT, "tools", "techniques.py")

    def test_docs_say_what_is_committed(self):
        r = subprocess.run([sys.executable, "-B", self.TOOL, "--check"], capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)

    def test_committed_runs_are_whole(self):
        folder = os.path.join(ROOT, "bench", "results")
        names = [n for n in os.listdir(folder) if re.fullmatch(r"ablation-.*\.json", n)]
        self.assertTrue(names)
        for n in names:
            with open(os.path.join(folder, n), encoding="utf-8") as f:
                o = json.load(f)
            self.assertTrue(o["complete"], n)
            only = o["settings"].get("only")
            self.assertEqual({r["technique"] for r in o["rows"]}, set(only.split(",")) if only else TECHNIQUES, n)
            self.assertTrue(o["machine"]["model"] and o["machine"]["load_before"] is not None, n)
            self.assertTrue(all(r["quality"]["same_bits"] is not False for r in o["rows"]), n)

    def test_other_numbers_are_seen(self):
        """The check fails when a committed number changes."""
        code = ("import runpy, sys, json; sys.argv = ['techniques.py', '--check']; load = json.load\n"
                "def other(f):\n    o = load(f)\n    o['rows'][0]['itl_ms'] = 123456.0\n    return o\n"
                "json.load = other\nrunpy.run_path(%r, run_name='__main__')" % self.TOOL)
        r = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True)
        self.assertEqual(r.returncode, 1, r.stdout + r.stderr)
        self.assertIn("techniques.py", r.stdout)


if __name__ == "__main__":
    HAYATE = os.path.abspath(sys.argv.pop(1))
    unittest.main()
