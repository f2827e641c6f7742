"""The program as its users meet it: every command's forms, and every way of holding it wrong that we
know of.

usage: test_cli.py HAYATE [TEST...]"""
import array
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import common
from common import LLAMA, MODEL

HAYATE = None


def floats(path_or_bytes):
    a = array.array("f")
    if isinstance(path_or_bytes, bytes):
        a.frombytes(path_or_bytes)
    else:
        with open(path_or_bytes, "rb") as f:
            a.frombytes(f.read())
    return a


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.dir.cleanup()

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def put(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return self.path(name)

    def tokens(self, ids, name="ids.json"):
        return self.put(name, json.dumps(ids))

    def run_it(self, *args, **kw):
        return common.run(self, HAYATE, *args, **kw)

    def good(self, *args, **kw):
        r = self.run_it(*args, **kw)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r

    def bad(self, args, *words, code=None, **kw):
        r = self.run_it(*args, **kw)
        self.assertIn(r.returncode, (1, 2) if code is None else (code,), "%s %s" % (args, r.stderr))
        for w in words:
            self.assertIn(str(w), r.stderr)
        self.assertLessEqual(len(r.stderr.splitlines()), 2, r.stderr)
        return r


with open(os.path.join(LLAMA, "golden.json"), encoding="utf-8") as golden_file:
    GOLDEN = {c["id"]: c for c in json.load(golden_file)["cases"]}


class Logits(Case):
    def logits(self, ids, *args, model=MODEL):
        out = self.path("out.f32")
        self.good("logits", model, "--tokens", self.tokens(ids), "--out", out, *args)
        with open(out, "rb") as f:
            return f.read()

    def test_golden(self):
        for name in ("p1", "p7", "p64", "p200"):
            c = GOLDEN[name]
            want = floats(os.path.join(LLAMA, c["logits"]["file"]))
            for model in (MODEL, os.path.join(LLAMA, "hf")):
                if model != MODEL and not os.path.exists(os.path.join(model, "tokenizer.json")):
                    continue
                got = floats(self.logits(c["tokens"], "--all", "--activations", "f32", model=model))
                n = 512
                self.assertEqual(len(got), n * len(c["tokens"]))
                for i, pos in enumerate(c["positions"]):
                    worst = max(abs(a - b) for a, b in zip(got[pos * n:pos * n + n], want[i * n:i * n + n]))
                    self.assertLess(worst, 1e-3, "%s position %d" % (name, pos))

    def test_same_bits(self):
        ids = GOLDEN["p64"]["tokens"]
        all_rows = self.logits(ids, "--all")
        self.assertEqual(self.logits(ids), all_rows[-2048:])
        for args in (["--chunk", 1], ["--chunk", 7], ["--threads", 3], ["--no-fuse"], ["--kv", "contiguous"],
                     ["--kv", "off", "--chunk", 16], ["--step", 5], ["--ctx", 64], ["--isa", "scalar"], ["--pin"]):
            self.assertEqual(self.logits(ids, "--all", *args), all_rows, args)
        for kind in ("f16", "bf16", "q8"):
            one = self.logits(ids, "--all", "--kv-type", kind)
            self.assertNotEqual(one, all_rows, kind)
            self.assertEqual(self.logits(ids, "--all", "--kv-type", kind, "--chunk", 3, "-t", 1), one, kind)
        self.bad(["logits", MODEL, "--tokens", self.path("ids.json"), "--out", self.path("o"), "--kv-type", "q4"], "q4", 32, 16)
        self.assertEqual(self.logits(ids, "--all", "--kv-type", "f32"), all_rows)  # auto: f32 for BF16 weights

    def test_wrong(self):
        out, t = self.path("o"), self.tokens([1, 2, 3])
        self.bad(["logits", MODEL], "--tokens", "--out", code=2)
        self.bad(["logits", MODEL, "--tokens", self.path("no"), "--out", out], "no")
        self.bad(["logits", MODEL, "--tokens", self.tokens([1, 512]), "--out", out], "512", "511")
        self.bad(["logits", MODEL, "--tokens", self.tokens([1, -1]), "--out", out], "item 1")
        self.bad(["logits", MODEL, "--tokens", self.tokens([]), "--out", out], "no tokens")
        self.bad(["logits", MODEL, "--tokens", self.tokens({"a": 1}), "--out", out], "not a JSON array")
        self.bad(["logits", MODEL, "--tokens", self.tokens([1] * 100), "--ctx", 64, "--out", out], 100, 64)
        self.bad(["logits", MODEL, "--tokens", self.put("g", b"\xff\x00["), "--out", out], "g")
        self.assertFalse(os.path.exists(out))
        t = self.tokens([1, 2, 3])
        self.bad(["logits", MODEL, "--tokens", t, "--out", "/dev/full"], "/dev/full", "space", code=1)
        self.assertTrue(os.path.exists("/dev/full"))
        self.bad(["logits", MODEL, "--tokens", t, "--out", self.path("no/x")], "no/x", code=1)
        self.bad(["logits", MODEL, "--tokens", t, "--out", self.dir.name], "directory", code=1)


class Run(Case):
    def json_of(self, *args, **kw):
        return json.loads(self.good("run", *args, "--json", **kw).stdout)

    def test_golden_greedy(self):
        for name in ("p7", "p64"):
            c = GOLDEN[name]
            o = self.json_of(MODEL, "--tokens", self.tokens(c["tokens"]), "-n", 32, "--temp", 0, "--ignore-eos",
                             "--activations", "f32")
            self.assertEqual(o["ids"], c["greedy"]["tokens"])
            self.assertIsInstance(o["text"], str)
            for key in ("ttft_ms", "prompt_tps", "decode_tps"):
                self.assertGreater(o["timings"][key], 0)

    def test_seed(self):
        a = [self.json_of(MODEL, "hello", "-n", 24, "--seed", 7, "--ignore-eos", *more)["ids"]
             for more in ([], ["-t", 1], ["--no-fuse"], ["--step", 2])]
        self.assertEqual(a, [a[0]] * 4)
        self.assertNotEqual(a[0], self.json_of(MODEL, "hello", "-n", 24, "--seed", 8, "--ignore-eos")["ids"])
        two = [self.good("run", MODEL, "hello", "-n", 24, "--seed", 18446744073709551615).stdout for _ in range(2)]
        self.assertEqual(two[0], two[1])

    def test_prompt_from_everywhere(self):
        args = ["-n", 8, "--temp", 0]
        want = self.good("run", MODEL, "hello world", *args).stdout
        f = self.put("p.txt", "hello world")
        self.assertEqual(self.good("run", MODEL, "-f", f, *args).stdout, want)
        self.assertEqual(self.good("run", MODEL, *args, input=b"hello world").stdout, want)
        self.assertEqual(self.good("run", MODEL, "-f", "-", *args, input=b"hello world").stdout, want)
        self.assertEqual(self.good("run", *args, MODEL, "--", "hello world").stdout, want)
        self.bad(["run", MODEL, "x", "-f", f], "once")
        self.bad(["run", MODEL, "-f", self.path("no")], "no")
        self.bad(["run", MODEL, "-f", self.dir.name], self.dir.name)

    def test_chat(self):
        a = self.json_of(MODEL, "--chat", "Hi", "-n", 4, "--temp", 0)
        t = self.put("t.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}")
        b = self.json_of(MODEL, "--chat", "Hi", "-n", 4, "--temp", 0, "--template", t)
        c = self.json_of(MODEL, "Hi", "--no-bos", "-n", 4, "--temp", 0)
        self.assertGreater(a["timings"]["n_prompt"], b["timings"]["n_prompt"])
        self.assertEqual(b["ids"], c["ids"])
        self.json_of(MODEL, "--chat", "Hi", "--system", "Be brief.", "-n", 2)
        self.bad(["run", MODEL, "--chat", "Hi", "--template", self.put("u", "{% for %}")], "hayate run")
        self.bad(["run", MODEL, "--chat", "Hi", "--template", self.put("v", "{{ raise_exception('not so') }}")], "not so")
        self.bad(["run", MODEL, "--chat", "--tokens", self.tokens([1])], "contradict")
        self.bad(["run", MODEL, "--chat", b"\xff\xfe", "-n", "2"], "UTF-8")

    def test_stop_and_logprobs(self):
        whole = self.json_of(MODEL, "hello", "-n", 40, "--temp", 0, "--ignore-eos")["text"]
        at = next(i for i in range(8, 30) if whole[i:i + 3].isprintable() and "\ufffd" not in whole[i:i + 3])
        stop = whole[at:at + 3]
        r = self.json_of(MODEL, "hello", "-n", 40, "--temp", 0, "--ignore-eos", "--stop", stop, "--stop", "never")
        self.assertEqual((r["text"], r["finish"]), (whole[:whole.index(stop)], "stop"))
        r = self.json_of(MODEL, "hello", "-n", 5, "--temp", 0, "--ignore-eos", "--logprobs", 3)
        self.assertEqual([x["id"] for x in r["logprobs"]], r["ids"])
        for x in r["logprobs"]:
            self.assertEqual(len(x["top"]), 3)
            self.assertEqual(x["top"][0][0], x["id"])  # greedy
            self.assertAlmostEqual(x["top"][0][1], x["logprob"], places=5)
            self.assertTrue(x["top"][0][1] >= x["top"][1][1] >= x["top"][2][1])
        self.assertEqual(self.json_of(MODEL, "hello", "-n", 2, "--logprobs", 0)["logprobs"][0]["top"], [])
        self.bad(["run", MODEL, "hello", "--logprobs", 3], "--json")
        self.bad(["run", MODEL, "hello", "--logprobs", 21, "--json"], "21", "20")
        self.bad(["run", MODEL, "hello", "--stop", ""], "stop", "empty")
        self.bad(["run", MODEL, "hello"] + ["--stop", "x"] * 65, "--stop", "64")
        biased = self.json_of(MODEL, "hello", "-n", 3, "--temp", 0, "--ignore-eos", "--logit-bias", "100=1000")
        self.assertEqual(biased["ids"], [100] * 3)
        self.bad(["run", MODEL, "hello", "--logit-bias", "512=1"], "512")
        self.bad(["run", MODEL, "hello", "--logit-bias", "100"], "ID=X")
        self.bad(["run", MODEL, "hello", "--logit-bias", "100=nan"], "nan")

    def test_all_samplers_at_once(self):
        self.json_of(MODEL, "hello", "-n", 20, "--temp", 1.5, "--top-k", 40, "--top-p", 0.9, "--min-p", 0.01,
                     "--typical-p", 0.9, "--repeat-penalty", 1.2, "--frequency-penalty", 0.5, "--presence-penalty",
                     0.5, "--no-repeat-ngram", 2, "--ignore-eos", "--special")

    def test_context(self):
        long_one = "hello " * 60
        for n in (0, -5):
            self.bad(["run", MODEL, "hello", "--ctx", n], "--ctx", n, code=2)
        self.bad(["run", "nowhere.gguf", "hello", "--ctx", 1], "--ctx", 1)  # before the model is looked at
        r = self.bad(["run", MODEL, long_one, "--ctx", 32], "context", 32)
        n = len(json.loads(self.good("tokenize", MODEL, long_one, "--ids").stdout))
        self.assertIn(str(n), r.stderr)
        self.bad(["run", MODEL, "hello", "--ctx", 64, "--kv-tokens", 32], 64, 32)
        self.bad(["run", MODEL, "hello", "--ctx", 99999999999], "99999999999", code=2)
        o = self.json_of(MODEL, "hello", "--ctx", 16, "-n", 1000, "--ignore-eos")
        self.assertEqual((o["finish"], o["timings"]["n_prompt"] + len(o["ids"])), ("length", 16))
        self.json_of(MODEL, "hello", "--ctx", 1000000, "-n", 2)  # only what is used is touched

    def test_numbers_out_of_range(self):
        for flag, v in (("--threads", 0), ("--threads", 9999), ("--threads", "two"), ("--threads", ""),
                        ("--temp", "nan"), ("--temp", 999999), ("--temp", -1), ("--temp", "inf"), ("--temp", "0x"),
                        ("--top-p", -1), ("--top-p", 1.5), ("--min-p", 2), ("--repeat-penalty", 0), ("--predict", 0),
                        ("--predict", -1), ("--predict", 2 ** 64), ("--top-k", 1e99), ("--step", 0), ("--seed", -1),
                        ("--seed", 2 ** 64), ("--kv-tokens", 1), ("--parallel", 0), ("--frequency-penalty", "-inf")):
            self.bad(["run", MODEL, "hello", flag, v], flag, v, code=2)
        for flag, v in (("--kv-type", "q3"), ("--kv", "none"), ("--isa", "mmx"), ("--weights", "q9"),
                        ("--activations", "int4")):
            self.bad(["run", MODEL, "hello", flag, v], v)

    def test_odd_prompts(self):
        for prompt in (b"\xff\xfe\xc3(", b"\xed\xa0\x80", b"a\x00b", "\U0001f600" * 3, b"\xf4\x90\x80\x80", "\ufeffx"):
            self.good("run", MODEL, "-n", 3, input=prompt if isinstance(prompt, bytes) else prompt.encode())
        self.good("run", MODEL, "", "-n", 3)  # BOS alone
        self.bad(["run", MODEL, "", "--no-bos"], "empty")
        self.bad(["run", MODEL, "--no-bos"], "empty", input=b"")
        self.bad(["run", MODEL, "--tokens", self.tokens([])], "empty")
        self.bad(["run", MODEL, "x" * 100000], "context")

    def test_output_gone(self):
        args = [HAYATE, "run", MODEL, "hello", "-n", "400", "--ignore-eos", "--seed", "1"]
        p = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=common.clean_env())
        p.stdout.read(10)
        p.stdout.close()
        p.stderr_text = p.stderr.read().decode()
        p.stderr.close()
        self.assertIn(p.wait(30), (0, 1))
        self.assertEqual(p.stderr_text, "")
        with open("/dev/full", "wb") as full:
            for more in ([], ["--json"]):
                r = subprocess.run(args + more, stdout=full, stderr=subprocess.PIPE, env=common.clean_env())
                self.assertEqual(r.returncode, 1)
                self.assertIn(b"No space", r.stderr)
        r = subprocess.run(["sh", "-c", '"$@" >&- 2>&-', "sh"] + args, env=common.clean_env())
        self.assertEqual(r.returncode, 1)


class Commands(Case):
    def test_no_command(self):
        r = self.run_it()
        self.assertEqual(r.returncode, 2)
        self.assertIn("usage", r.stdout)
        for args in (["--help"], ["-h"], ["help"]):
            self.assertIn("usage", self.good(*args).stdout)
        self.assertEqual(self.good("version").stdout, self.good("--version").stdout)
        self.bad(["frobnicate"], "frobnicate", "help", code=2)
        self.bad(["help", "frobnicate"], "frobnicate")

    def test_help_of_each(self):
        usage = self.good("help").stdout
        names = [line.split()[0] for line in usage.splitlines() if line.startswith("  ") and line.split()]
        self.assertGreaterEqual(len(names), 15)
        for name in names:
            text = self.good("help", name).stdout
            self.assertEqual(self.good(name, "--help").stdout, text)
            self.assertIn("usage: hayate %s" % name, text)
            for line in text.splitlines():
                self.assertLessEqual(len(line), 110, line)
            self.bad([name, "--no-such-option"], "--no-such-option", code=2)

    def test_too_few_and_too_many(self):
        for args in (["run"], ["chat"], ["bench"], ["eval", "perplexity"], ["info"], ["explain"], ["tokenize"],
                     ["quantize", "a", "b"], ["imatrix"], ["pull"], ["logits"], ["dequantize"], ["completion"]):
            self.bad(args, "usage", args[0], code=2)
        for args in (["run", MODEL, "a", "b"], ["info", MODEL, "b"], ["version", "x"], ["help", "run", "x"]):
            self.bad(args, "too much", code=2)
        self.bad(["run", MODEL, "hello", "-n"], "wants a value", code=2)
        self.bad(["run", MODEL, "-z", "hello"], "-z", code=2)
        self.bad(["run", MODEL, "-what is this"], "after --", code=2)
        self.bad(["run", MODEL, "x", "--quiet=maybe"], "maybe", code=2)

    def test_dequantize(self):
        quants = os.path.join(common.DATA, "quants")
        names = sorted(n[:-4] for n in os.listdir(quants) if n.endswith(".bin"))
        self.assertGreater(len(names), 10)
        for name in names:
            with open(os.path.join(quants, name + ".bin"), "rb") as f, \
                    open(os.path.join(quants, name + ".f32"), "rb") as g:
                raw, want = f.read(), g.read()
            self.assertEqual(self.good("dequantize", name, input=raw, binary=True).stdout, want, name)
        self.assertEqual(self.good("dequantize", "q4_0", input=b"", binary=True).stdout, b"")
        self.bad(["dequantize", "q4_0"], "17 bytes", "18", input=bytes(17))
        self.bad(["dequantize", "q9_9"], "q9_9", input=b"")

    def test_bench(self):
        r = self.good("bench", MODEL, "-p", 8, "-n", 4, "-d", "0,16", "-b", "1,3", "-t", 2, "-r", 2, "--json")
        rows = [json.loads(line) for line in r.stdout.splitlines()]
        self.assertEqual([(x["test"], x["n"], x["depth"], x["rows"]) for x in rows],
                         [(t, n, d, b) for d in (0, 16) for b in (1, 3) for t, n in (("pp", 8), ("tg", 4))])
        for x in rows:
            self.assertEqual((x["threads"], len(x["tps"])), (2, 2))
            self.assertGreater(min(x["tps"]), 0)
            self.assertAlmostEqual(x["median"], sum(x["tps"]) / 2, delta=0.01 + x["median"] * 1e-4)
        text = self.good("bench", MODEL, "-p", 0, "-n", 4, "-r", 1).stdout
        self.assertIn("tg4", text)
        self.assertNotIn("pp", text)
        for flag, v in (("-d", ""), ("-d", "1,x"), ("-b", "0"), ("-b", "9999"), ("-r", 0), ("-d", ",".join("1" * 17)),
                        ("-p", -1), ("-d", "-1")):
            self.bad(["bench", MODEL, flag, v], code=2)
        self.bad(["bench", MODEL, "-p", 0, "-n", 0], "nothing", code=2)
        self.bad(["bench", MODEL, "-p", 100, "-c", 50], "100", "50")

    def test_eval(self):
        text = self.put("t.txt", "The quick brown fox jumps over the lazy dog. " * 20)
        a = json.loads(self.good("eval", "perplexity", MODEL, "-f", text, "-w", 32, "--windows", 3, "--json").stdout)
        self.assertEqual((a["windows"], a["scored"]), (3, 48))
        self.assertTrue(1 < a["low"] <= a["perplexity"] <= a["high"])
        k = json.loads(self.good("eval", "kl", MODEL, "--base", MODEL, "-f", text, "-w", 32, "--windows", 3,
                                 "--json").stdout)
        self.assertEqual((k["perplexity"], k["base_perplexity"], k["same_top"]), (a["perplexity"], a["perplexity"], 1))
        self.assertLess(abs(k["kl_mean"]), 1e-6)
        self.assertIn("perplexity", self.good("eval", "perplexity", MODEL, "-f", text, "-w", 32).stdout)
        self.bad(["eval", "entropy", MODEL, "-f", text], "entropy", code=2)
        self.bad(["eval", "kl", MODEL, "-f", text], "--base", code=2)
        self.bad(["eval", "perplexity", MODEL, "--base", MODEL, "-f", text], "--base", code=2)
        self.bad(["eval", "perplexity", MODEL], "-f", code=2)
        self.bad(["eval", "perplexity", MODEL, "-f", self.put("s", "short"), "-w", 32], "32")
        self.bad(["eval", "perplexity", MODEL, "-f", text, "-w", 32, "--score-from", 32], "32", "31")
        self.bad(["eval", "perplexity", MODEL, "-f", text, "-w", 32, "-c", 16], "32", "16")
        other = os.path.join(common.DATA, "models", "granite", "model-bf16.gguf")
        r = self.run_it("eval", "kl", MODEL, "--base", other, "-f", text, "-w", 32)
        self.assertIn(r.returncode, (0, 1), r.stderr)

    def test_looking(self):
        o = json.loads(self.good("info", MODEL, "--json", "--ctx", 256).stdout)
        self.assertEqual((o["family"], o["shape"]["layers"], o["shape"]["vocabulary"]), ("llama", 2, 512))
        self.assertIn("llama", self.good("info", MODEL).stdout)
        self.assertIn("llama", self.good("info", os.path.join(LLAMA, "hf")).stdout)
        self.bad(["info", MODEL, "--ctx", 0], "--ctx", code=2)
        text = self.good("explain", MODEL).stdout
        self.assertIn("PRIMITIVE", text)
        self.assertIn("FUSED", text)
        json.loads(self.good("explain", MODEL, "--json").stdout)

    def test_tokenize(self):
        want = json.loads(self.good("tokenize", MODEL, "hello world", "--ids").stdout)
        o = json.loads(self.good("tokenize", MODEL, "hello world", "--json").stdout)
        self.assertEqual(([t["id"] for t in o["tokens"]], o["n"]), (want, len(want)))
        self.assertEqual(b"".join(bytes(t["bytes"]) for t in o["tokens"][1:]), b"hello world")
        self.assertEqual(json.loads(self.good("tokenize", MODEL, "--ids", input=b"hello world").stdout), want)
        self.assertEqual(json.loads(self.good("tokenize", MODEL, "--ids", "-f", self.put("x", "hello world")).stdout), want)
        self.assertEqual(json.loads(self.good("tokenize", MODEL, "--ids", "--no-bos", "hello world").stdout), want[1:])
        self.assertEqual(self.good("tokenize", MODEL, "").stdout.split()[1], "'<|begin_of_text|>'")
        special = json.loads(self.good("tokenize", MODEL, "<|eot_id|>", "--ids", "--no-bos").stdout)
        self.assertEqual(special, [511])
        plain = json.loads(self.good("tokenize", MODEL, "<|eot_id|>", "--ids", "--no-bos", "--no-parse-special").stdout)
        self.assertGreater(len(plain), 3)
        self.good("tokenize", MODEL, input=b"\xff\xc3(\x00\xed\xa0\x80")
        self.bad(["tokenize", MODEL, "x", "-f", self.path("x")], "once", code=2)

    def test_pipe(self):
        ask = [{"op": "tokenize", "b64": base64.b64encode(b"hello").decode(), "add_special": True, "parse_special": True},
               {"op": "tokenize", "text": "hello", "add_special": True},
               {"op": "tokenize", "text": "hello"},
               {"op": "stream", "ids": [507, 259, 75, 360]},
               {"op": "template", "template": "{{ a }} {{ b | upper }}", "vars": {"a": 1, "b": "x"}}]
        garbage = [b"", b"garbage", b"{", b"[1]", b"5", b"\xff\xfe", b"{}", b'{"op":7}', b'{"op":"dance"}',
                   b'{"op":"tokenize"}', b'{"op":"tokenize","b64":"!!"}', b'{"op":"tokenize","b64":"A"}',
                   b'{"op":"stream","ids":[-1]}', b'{"op":"stream","ids":[99999999999]}', b'{"op":"stream","ids":["x"]}',
                   b'{"op":"stream","ids":[0.5]}', b'{"op":"stream"}', b'{"op":"template","template":"{% if %}","vars":{}}',
                   b'{"op":"template","template":"x","vars":[]}', b'{"op":"template","template":"{{ 1/0 }}","vars":{}}',
                   b"[" * 5000, b'{"op":"\\u0000"}']
        lines = [json.dumps(a).encode() for a in ask] + garbage + [json.dumps(ask[0]).encode()]
        answers = [json.loads(x) for x in self.good("pipe", MODEL, input=b"\n".join(lines) + b"\n").stdout.splitlines()]
        self.assertEqual(len(answers), len(lines))
        want = json.loads(self.good("tokenize", MODEL, "hello", "--ids").stdout)
        self.assertEqual([a.get("ids") for a in answers[:3]], [want, want, want[1:]])
        self.assertEqual(answers[-1]["ids"], want)
        self.assertEqual(len(answers[3]["chunks"]), 4)
        self.assertEqual(answers[4], {"text": "1 X"})
        for line, a in zip(garbage, answers[len(ask):]):
            self.assertEqual(list(a), ["error"], line)
        r = self.good("pipe", input=json.dumps(ask[4]).encode() + b"\n" + json.dumps(ask[0]).encode())
        self.assertEqual([list(json.loads(x)) for x in r.stdout.splitlines()], [["text"], ["error"]])
        self.assertEqual(self.good("pipe", input=b"").stdout, "")

    def test_pipe_match(self):
        ask = [({"schema": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1}, "texts": ['["a", "b"]', "[]", '["c"]']},
                [True, False, False]),
               ({"regex": "[a-c]+", "texts": ["abc", "abcd", ""]}, [True, False, False]),
               ({"gbnf": 'root ::= "x" @schema("n") | "y"', "schemas": {"n": {"type": "integer"}}, "texts": ["x12", "y", "x"]},
                [True, True, False]),
               ({"schema": True, "texts": ["{}", "{"]}, [True, False]),
               ({"schema": {"uniqueItems": True}, "texts": []}, "uniqueItems"),
               ({"schema": {"$ref": "#"}, "texts": ["1"]}, "$ref"),
               ({"regex": "(", "texts": []}, "regex"),
               ({"gbnf": "root ::= root", "texts": []}, "left recursion"),
               ({"gbnf": "root ::= @schema(\"x\")", "schemas": 3, "texts": []}, "schemas"),
               ({"texts": []}, "wants"),
               ({"regex": "a", "gbnf": "b", "schema": {}, "texts": []}, "wants"),
               ({"regex": 7, "texts": []}, "wants"),
               ({"regex": "a"}, "texts"),
               ({"regex": "a", "texts": [1]}, "texts")]
        lines = "\n".join(json.dumps({"op": "match", **a}) for a, _ in ask)
        for (a, want), line in zip(ask, self.good("pipe", input=lines.encode()).stdout.splitlines(), strict=True):
            got = json.loads(line)
            if isinstance(want, str):
                self.assertIn(want, got["error"], a)
            else:
                self.assertEqual(got, {"match": want}, a)

    def test_completion(self):
        for shell in ("bash", "zsh"):
            f = self.put(shell, self.good("completion", shell).stdout)
            if shutil.which(shell):
                r = subprocess.run([shell, "-n", f], capture_output=True)
                self.assertEqual((r.returncode, r.stderr), (0, b""))
            else:
                print("skipped: completion %s needs %s" % (shell, shell))
        r = subprocess.run(["bash", "-c", 'source "$1"; COMP_WORDS=(hayate ru); COMP_CWORD=1; _hayate; echo ${COMPREPLY[@]};'
                            'COMP_WORDS=(hayate run --packed); COMP_CWORD=2; _hayate; echo ${COMPREPLY[@]}',
                            "bash", self.path("bash")], capture_output=True, text=True)
        self.assertEqual(r.stdout.split(), ["run", "--packed-cache"], r.stderr)
        self.bad(["completion", "fish"], "fish", code=2)

    def test_no_tokenizer(self):
        """What computes on ids needs none; what needs text says so."""
        shutil.copytree(os.path.join(LLAMA, "hf"), self.path("hf"))
        for name in ("tokenizer.json", "tokenizer_config.json"):
            if os.path.exists(self.path("hf/" + name)):
                os.unlink(self.path("hf/" + name))
        for model, out in ((os.path.join(LLAMA, "hf"), "a"), (self.path("hf"), "b")):
            self.good("logits", model, "--tokens", self.tokens([1, 5, 9]), "--all", "--out", self.path(out))
        with open(self.path("a"), "rb") as a, open(self.path("b"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.good("bench", self.path("hf"), "-p", 4, "-n", 2, "-r", 1, "--quiet")
        self.bad(["run", self.path("hf"), "hello"], "tokenizer", code=1)
        self.bad(["eval", "perplexity", self.path("hf"), "-f", self.put("t.txt", "text " * 900)], "tokenizer", code=1)

    def test_quantize(self):
        out = self.path("q.gguf")
        self.good("quantize", MODEL, out, "q8_0", "-q")
        self.assertEqual(len(json.loads(self.good("run", out, "hello", "-n", 3, "--json").stdout)["ids"]), 3)
        self.good("quantize", os.path.join(LLAMA, "hf"), out, "f16", "-q")
        self.bad(["quantize", MODEL, out, "q9_z", "-q"], "q9_z")
        self.bad(["quantize", MODEL, self.path("no/q.gguf"), "q8_0", "-q"], "no/q.gguf")
        self.bad(["quantize", self.path("none"), out, "q8_0"], "none")
        self.bad(["quantize", MODEL, out, "q8_0", "--override", "x"], "PATTERN=TYPE", code=2)
        self.bad(["quantize", MODEL, self.dir.name, "q8_0", "-q"], self.dir.name)
        os.mkfifo(self.path("pipe"))
        self.bad(["quantize", MODEL, self.path("pipe"), "q8_0", "-q"], "regular")
        self.assertTrue(os.path.exists(self.path("pipe")))
        self.assertEqual(sorted(os.listdir(self.dir.name)), ["pipe", "q.gguf"])

    def test_nothing_printed_is_lost(self):
        with open("/dev/full", "wb") as full:
            for args in (["help"], ["info", MODEL], ["explain", MODEL], ["tokenize", MODEL, "x"], ["completion", "bash"],
                         ["bench", MODEL, "-p", "4", "-n", "0", "-r", "1"]):
                r = subprocess.run([HAYATE] + args, stdout=full, stderr=subprocess.PIPE, env=common.clean_env())
                self.assertEqual(r.returncode, 1, args)
                self.assertIn(b"standard output: ", r.stderr, args)


class Settings(Case):
    """A flag wins over the environment, the environment over the config file."""

    def count(self, *args, **env):
        r = self.good("run", MODEL, "hello", "--ignore-eos", "--json", *args, env=env)
        return len(json.loads(r.stdout)["ids"])

    def test_order(self):
        f = self.put("config", '# settings\n\n  predict = 3\ntemp="0"\nignore-eos = yes\nwindow = 64\n')
        self.assertEqual(self.count(HAYATE_CONFIG=f), 3)
        self.assertEqual(self.count(HAYATE_CONFIG=f, HAYATE_PREDICT="4"), 4)
        self.assertEqual(self.count("-n", 5, HAYATE_CONFIG=f, HAYATE_PREDICT="4"), 5)
        self.assertEqual(self.count("-n5", HAYATE_CONFIG=f), 5)
        self.assertEqual(self.count("--predict=6", HAYATE_CONFIG=f), 6)
        os.makedirs(self.path("xdg/hayate"))
        shutil.copy(f, self.path("xdg/hayate/config"))
        self.assertEqual(self.count(XDG_CONFIG_HOME=self.path("xdg")), 3)
        os.makedirs(self.path("home/.config/hayate"))
        shutil.copy(f, self.path("home/.config/hayate/config"))
        self.assertEqual(self.count(HOME=self.path("home"), XDG_CONFIG_HOME=""), 3)

    def test_wrong(self):
        for text, *words in (("nonsense", "line 1", "nonsense"), ("\nthreds = 2", "line 2", "threds"), ("predict = x", "x"),
                             ("threads = 0", "0", "256"), ("ignore-eos = perhaps", "perhaps"), ("= 3", "line 1")):
            f = self.put("config", text)
            self.bad(["run", MODEL, "hello"], f, *words, code=2, env={"HAYATE_CONFIG": f})
        self.bad(["run", MODEL, "hello"], "HAYATE_CONFIG", code=2, env={"HAYATE_CONFIG": self.path("no")})
        self.bad(["run", MODEL, "hello"], "HAYATE_THREADS", "many", code=2, env={"HAYATE_THREADS": "many"})
        self.bad(["run", MODEL, "hello"], "mmx", env={"HAYATE_ISA": "mmx"})
        f = self.put("config", b"\xff\xfe\x00binary")
        self.bad(["run", MODEL, "hello"], "config", env={"HAYATE_CONFIG": f})
        self.good("help", env={"HAYATE_CONFIG": self.put("config", "")})


if __name__ == "__main__":
    HAYATE = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
