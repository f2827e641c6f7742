"""Faults that users of other servers met: each case of our list by its name, from outside.

T: streams, text, fields. R: requests that must not hurt. C: context limits. N: wrong numbers. K: cancelling, liveness.
G: tools. A case that another file holds as well is asked here once more, so that all stand in one place.

usage: test_serve_faults.py HAYATE [TEST...]"""
import collections
import concurrent.futures
import json
import math
import os
import resource
import subprocess
import sys
import time
import unittest

import common
from serve_common import LONG, LONG_FLAGS, Case, events, until

TEXT, CHAT = "/v1/completions", "/v1/chat/completions"
HELLO = [{"role": "user", "content": "Hello"}]
SANITIZED = False


class Fault(Case):
    flags = ("--ctx", "1024", "--parallel", "16", "--queue", "1000", "--allow-template")

    def ok(self, path, server=None, **body):
        r = (server or self.server).post(path, body)
        self.assertEqual(r.status, 200, r.body[:500])
        return r.json()

    def stream(self, path, server=None, **body):
        r = (server or self.server).post(path, {**body, "stream": True})
        self.assertEqual(r.status, 200, r.body[:500])
        data = events(r.body)
        self.assertEqual(data.pop(), "[DONE]")
        return [json.loads(d) for d in data]

    def refused(self, body, *words, path=TEXT, status=400):
        r = self.server.post(path, body if isinstance(body, bytes) else {"prompt": "a", "max_tokens": 2, **body})
        self.assertEqual(r.status, status, (body, r.body[:300]))
        e = r.json()["error"]
        for w in words:
            self.assertIn(w, json.dumps(e))
        self.assertEqual(self.server.get("/health").status, 200)
        return e


class Streams(Fault):
    def tokens_of_bytes(self):
        """Tokens that are one byte each."""
        out = {}
        for i in range(512):
            r = self.ok("/detokenize", tokens=[i])
            text = r.get("content", r.get("prompt"))
            if len(text.encode()) == 1:
                out.setdefault(text.encode(), i)
        pieces = self.ok("/tokenize", content="\u00e9\u20ac\U0001f600\uf8ff\u0400", with_pieces=True)["tokens"]
        for p in pieces:
            if isinstance(p["piece"], list) and len(p["piece"]) == 1:
                out[bytes(p["piece"])] = p["id"]
        return out

    def test_T1_bytes_that_are_no_text(self):
        for seed in range(6):
            body = {"prompt": "a", "max_tokens": 60, "temperature": 50, "seed": seed, "ignore_eos": True, "logprobs": 1}
            whole = self.ok(TEXT, **body)["choices"][0]
            self.assertEqual("".join(c["choices"][0]["text"] for c in self.stream(TEXT, **body)), whole["text"])
            self.assertEqual(len(whole["logprobs"]["tokens"]), 60)
            whole["text"].encode()  # no half of a surrogate pair
            if "\ufffd" in whole["text"]:
                break
        else:
            self.fail("the model never wrote a broken character: the case is not met")

    def test_T3_forms_that_utf_8_forbids(self):
        one = self.tokens_of_bytes()
        forms = [b"\xc0\xaf", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf0\x80\x80\x80", b"\xf8\x88\x80\x80\x80",
                 b"\xff\xfe", b"\x80", b"\xe2\x82", b"\xc3\xa9\xc3"]
        tried = 0
        for form in forms:
            raw = b"<" + form + b">"
            if any(raw[i:i + 1] not in one for i in range(len(raw))):
                continue
            tried += 1
            ids = [one[raw[i:i + 1]] for i in range(len(raw))]
            want = raw.decode("utf-8", "replace")  # Unicode 15, 3.9: one U+FFFD for each maximal part
            r = self.ok(TEXT, prompt=ids, echo=True, max_tokens=3, temperature=0, ignore_eos=True)
            self.assertTrue(r["choices"][0]["text"].startswith(want), (form, r["choices"][0]["text"]))
            self.assertEqual(r["usage"]["completion_tokens"], 3)  # not cut
        if not tried:
            print("skipped: this vocabulary has no tokens for single bytes")

    def test_T5_stop_string_is_held_back(self):
        fox = "The quick brown fox jumps"
        body = {"prompt": "a", "max_tokens": 200, "guided_regex": fox, "stop": "own fox"}
        c = self.ok(TEXT, **body)["choices"][0]
        self.assertEqual((c["text"], c["finish_reason"]), ("The quick br", "stop"))
        seen = ""
        for k in self.stream(TEXT, **body):
            seen += k["choices"][0]["text"]
            self.assertTrue("The quick br".startswith(seen), seen)
        self.assertEqual(seen, "The quick br")

    def test_T7_stop_strings_that_begin_each_other(self):
        fox = "one two three four"
        for stop, want in (([" two", " two three"], "one"), ([" two three", " two"], "one"), (["three f", "three", "t"], "one "),
                           (["four!", " fo"], "one two three"), (["fourx"], fox)):
            for more in ({}, {"n": 3, "seed": 1, "temperature": 1}):
                body = {"prompt": "a", "max_tokens": 200, "guided_regex": fox, "stop": stop, **more}
                for c in self.ok(TEXT, **body)["choices"]:
                    self.assertEqual(c["text"], want)
                texts = collections.defaultdict(str)
                for k in self.stream(TEXT, **body):
                    for c in k["choices"]:
                        texts[c["index"]] += c["text"]
                self.assertEqual(set(texts.values()), {want})

    def test_T9_finish_reason_is_null_until_the_last(self):
        for path, first in ((TEXT, {"prompt": "a"}), (CHAT, {"messages": HELLO})):
            for more, legal in (({"max_tokens": 7}, "length"), ({"stop": ["e", "a", "o", "i", "t"], "max_tokens": 400}, None),
                                ({"max_tokens": 60, "guided_regex": "yes|no"}, "stop"), ({"n": 2, "max_tokens": 3}, "length")):
                body = {**first, **more, "temperature": 1, "seed": 3}
                if "guided_regex" not in more:
                    body["ignore_eos"] = True
                reasons = collections.defaultdict(list)
                for k in self.stream(path, **body):
                    for c in k["choices"]:
                        reasons[c["index"]].append(c["finish_reason"])
                self.assertEqual(len(reasons), more.get("n", 1))
                for r in reasons.values():
                    self.assertTrue(all(x is None for x in r[:-1]), r)
                    self.assertIn(r[-1], ("stop", "length") if legal is None else (legal,))

    def test_T11_usage_where_it_is_asked(self):
        s = self.start("--ctx", "1024", "--speculate", "ngram", "--spec-always")
        prompt = [7 + i % 5 for i in range(200)]
        for server in (self.server, s):
            for more in ({}, {"stop": ["zzzz"]}):
                body = {"prompt": prompt, "max_tokens": 24, "temperature": 0, "ignore_eos": True, **more}
                for round_ in range(2):
                    u = self.ok(TEXT, server, **body)["usage"]
                    self.assertEqual((u["prompt_tokens"], u["completion_tokens"], u["total_tokens"]), (200, 24, 224))
                self.assertGreaterEqual(u["prompt_tokens_details"]["cached_tokens"], 176)  # whole pages of the second time
                self.assertTrue(all("usage" not in k for k in self.stream(TEXT, server, **body)))
                self.assertTrue(all("usage" not in k for k in self.stream(TEXT, server, **body, stream_options={"include_usage": False})))
                chunks = self.stream(TEXT, server, **body, stream_options={"include_usage": True})
                self.assertEqual((chunks[-1]["choices"], chunks[-1]["usage"]["completion_tokens"]), ([], 24))
                self.assertTrue(all(k["usage"] is None for k in chunks[:-1]))
        s.close(self)

    def test_T13_logprobs_without_top_logprobs(self):
        for more in ({}, {"top_logprobs": None}, {"top_logprobs": 0}):
            r = self.ok(CHAT, messages=HELLO, max_tokens=4, ignore_eos=True, logprobs=True, **more)
            content = r["choices"][0]["logprobs"]["content"]
            self.assertEqual(len(content), 4)
            for t in content:
                self.assertLessEqual(t["logprob"], 0)
                self.assertEqual(t["top_logprobs"], [])


class Requests(Fault):
    def test_R1_values_out_of_range(self):
        for field, value in (("temperature", 999999), ("top_p", -1), ("repeat_penalty", 0), ("min_p", 7), ("frequency_penalty", -3),
                             ("temperature", "NaN"), ("top_p", "Infinity"), ("presence_penalty", 1e300), ("typical_p", -1)):
            self.refused({field: value}, field)
        for text in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"nan"):
            r = self.server.post(TEXT, b'{"prompt":"a","max_tokens":2,"temperature":%s}' % text, {"Content-Type": "application/json"})
            self.assertEqual(r.status, 400)

    def test_R3_logprobs_of_prompts(self):
        for value in (-1, 10 ** 9, 2 ** 31, 2 ** 63 - 1):
            self.refused({"prompt_logprobs": value, "prompt": [5] * 900}, "prompt_logprobs")
            self.refused({"logprobs": value, "echo": True, "prompt": [5] * 900}, "logprobs")
        r = self.ok(TEXT, prompt=[5 + i % 300 for i in range(900)], max_tokens=1, prompt_logprobs=2)  # rows, not prompt x vocabulary
        self.assertEqual(len(r["choices"][0]["prompt_logprobs"]), 900)

    def test_R5_recursion(self):
        for schema in ({"$ref": "#"}, {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
                       {"allOf": [{"$ref": "#"}]}, {"properties": {"x": {"$ref": "#"}}, "required": ["x"], "type": "object"}):
            self.refused({"guided_json": schema})
        self.refused({"guided_grammar": "root ::= root"})
        self.refused({"guided_grammar": "root ::= a\na ::= b\nb ::= a | \"x\""})
        tree = {"type": "object", "properties": {"kid": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}, "required": ["kid"],
                "additionalProperties": False}
        c = self.ok(TEXT, prompt="a", max_tokens=300, temperature=1, seed=2, guided_json=tree)["choices"][0]
        if c["finish_reason"] == "stop":
            v = json.loads(c["text"])
            while v is not None:
                self.assertEqual(list(v), ["kid"])
                v = v["kid"]

    def test_R7_large_bounds(self):
        inner = {"type": "object", "properties": {"s": {"type": "string", "maxLength": 65536}}, "required": ["s"]}
        self.ok(TEXT, prompt="a", max_tokens=8, guided_json={"type": "object", "properties": {"o": inner}, "required": ["o"]})
        body = b'{"prompt":"a","max_tokens":8,"guided_json":{"type":"array","items":{"type":"null"},"maxItems":18446744073709551615}}'
        r = self.server.post(TEXT, body, {"Content-Type": "application/json"})
        self.assertEqual(r.status, 200, r.body)

    def test_R9_wrong_expressions(self):
        for regex in ("(", "[", "a{2,1}", "*", "(?P<n>a)(?P=n)", "\\", "(a|b", "[z-a]"):
            self.refused({"guided_regex": regex}, "guided_regex")
        self.assertEqual(self.ok(TEXT, prompt="a", max_tokens=9, guided_regex="ok")["choices"][0]["text"], "ok")

    def test_C3_C5_the_context_does_not_slide(self):
        c = self.ok(TEXT, prompt=[5] * 900, max_tokens=512 - 400, temperature=0, ignore_eos=True)
        self.assertLessEqual(c["usage"]["completion_tokens"], 112)
        self.assertEqual(c["choices"][0]["finish_reason"], "length")
        self.refused({"n_keep": 2000}, "n_keep")
        self.refused({"n_discard": -1}, "n_discard")

    def test_C7_what_can_never_fit(self):
        e = self.refused({"prompt": [5] * 5000}, "5000", "1024")
        self.assertEqual(e["code"], "context_length_exceeded")
        c = self.ok(TEXT, prompt=[5] * 1000, max_tokens=500, ignore_eos=True)["choices"][0]  # what fits in part is cut, and says so
        self.assertEqual(c["finish_reason"], "length")


class Numbers(Fault):
    def ids(self, choice):
        return choice["token_ids"], choice["logprobs"]["token_logprobs"]

    def test_N1_once_and_sixteen_times(self):
        body = {"prompt": [9 + i % 90 for i in range(120)], "max_tokens": 32, "temperature": 0, "ignore_eos": True, "logprobs": 1,
                "return_token_ids": True}
        alone = self.ids(self.ok(TEXT, **body)["choices"][0])
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for r in pool.map(lambda _: self.ok(TEXT, **body), range(16)):
                self.assertEqual(self.ids(r["choices"][0]), alone)
        for c in self.ok(TEXT, **body, n=16)["choices"]:
            self.assertEqual(self.ids(c), alone)

    def test_N9_salts_share_nothing(self):
        prompt = [3 + i % 200 for i in range(300)]
        cached = lambda **k: self.ok(TEXT, prompt=prompt, max_tokens=1, **k)["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(cached(cache_salt="x"), 0)
        self.assertGreater(cached(cache_salt="x"), 0)
        self.assertEqual(cached(cache_salt="y"), 0)
        self.assertEqual(cached(), 0)
        self.assertEqual(cached(cache_salt="xx"), 0)

    # the upper tail of chi-square at 7 degrees of freedom beyond which lies one case in a million
    CHI_7 = 43.0

    def test_N11_the_distribution_of_samples(self):
        """20,000 samples at temperature 0.7 of the eight likeliest: as often as the model's own numbers say, with and without
        drafts; and every single one the same with drafts as without."""
        prompt = [11, 12, 13, 14] * 20
        spec = self.start("--ctx", "1024", "--parallel", "16", "--queue", "1000", "--speculate", "ngram", "--spec-always")
        first = self.ok(TEXT, prompt=prompt, max_tokens=1, logprobs=8, temperature=0, return_tokens_as_token_ids=True)
        top = first["choices"][0]["logprobs"]["top_logprobs"][0]
        weight = {k: math.exp(v / 0.7) for k, v in sorted(top.items(), key=lambda kv: -kv[1])[:8]}
        p = {k: w / sum(weight.values()) for k, w in weight.items()}
        n, total = (128, 20000) if not SANITIZED else (128, 2560)

        def draw(server, seed):
            r = self.ok(TEXT, server, prompt=prompt, max_tokens=3, temperature=0.7, top_k=8, seed=seed, n=n, ignore_eos=True, logprobs=0,
                        return_tokens_as_token_ids=True)
            return [tuple(c["logprobs"]["tokens"]) for c in r["choices"]]
        seeds = range(1, total, n)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            plain = sum(pool.map(lambda s: draw(self.server, s), seeds), [])
            drafted = sum(pool.map(lambda s: draw(spec, s), seeds), [])
        self.assertEqual(plain, drafted)
        counts = collections.Counter(t[0] for t in plain)
        self.assertLessEqual(set(counts), set(p))
        chi = sum((counts[k] - len(plain) * q) ** 2 / (len(plain) * q) for k, q in p.items())
        self.assertLess(chi, self.CHI_7, (counts, p))
        self.assertGreater(len(plain) * min(p.values()), 5)  # else the test says little
        # answers of one request are as independent as those of many: pairs of neighbours
        pairs = collections.Counter(zip((t[0] for t in plain[::2]), (t[0] for t in plain[1::2])))
        half = sum(pairs.values())
        chi2, cells = 0.0, 0
        for a, qa in p.items():
            for b, qb in p.items():
                want = half * qa * qb
                if want >= 5:
                    chi2 += (pairs[a, b] - want) ** 2 / want
                    cells += 1
        self.assertLess(chi2, cells + 6 * math.sqrt(2 * cells) + 20)
        spec.close(self)


class Liveness(Case):
    flags = None

    def test_K1_leaving_frees_the_place(self):
        s = self.start("--parallel", "1", *LONG_FLAGS)
        for stream in (True, False):
            r = s.raw()
            r.request("POST", TEXT, dict(LONG, stream=stream))
            if stream:
                r.head()
            else:
                until("it to run", lambda: s.get("/stats").json()["number"]["vllm:num_requests_running"] == 1)
            r.close()
            self.assertEqual(s.post(TEXT, {"prompt": "a", "max_tokens": 1}).status, 200)  # the one place is free
        n = s.get("/stats").json()["number"]
        self.assertEqual(n["hayate_requests_cancelled_total"], 2)
        self.assertLessEqual(n["hayate_tokens_after_cancel_total"], 2 * 512)  # a step each
        s.close(self)

    def test_K3_health_during_a_long_prompt(self):
        s = self.start("--threads", "1", "--parallel", "4", *LONG_FLAGS)
        r = s.raw()
        r.request("POST", TEXT, {"prompt": [5 + i % 400 for i in range(60000)], "max_tokens": 1, "stream": True})
        until("the prompt to be computed", lambda: s.get("/stats").json()["number"]["hayate_requests_prefilling"] == 1)
        times, in_prompt = [], 0
        for _ in range(100):
            for path in ("/health", "/metrics"):
                t = time.monotonic()
                self.assertEqual(s.get(path).status, 200)
                times.append(time.monotonic() - t)
            in_prompt += s.get("/stats").json()["number"]["hayate_requests_prefilling"] == 1
        r.close()
        # none waited for the prompt: its steps and the whole of it are far longer than the median
        self.assertGreater(in_prompt, 0)
        self.assertLess(sorted(times)[len(times) // 2], 1)
        s.close(self)

    def test_K5_many_prompts_in_a_small_cache(self):
        s = self.start("--ctx", "256", "--kv-memory", "2M", "--parallel", "4")
        rounds = 5 if SANITIZED else 20

        def number(name):
            return s.get("/stats").json()["number"][name]

        def ask(i):
            r = s.post(TEXT, {"prompt": [2 + (i * 7919 + k * (1 + i % 13)) % 480 for k in range(150)], "max_tokens": 2})
            self.assertEqual(r.status, 200, r.body)
        rss = []
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for k in range(rounds):
                list(pool.map(ask, range(250 * k, 250 * (k + 1))))
                rss.append(number("process_resident_memory_bytes"))
        if not SANITIZED:
            warm = rss[len(rss) // 4]
            self.assertLess(rss[-1], warm * 1.05 + (4 << 20), rss)
        self.assertGreater(number("hayate_prefix_cache_evicted_tokens_total"), 0)
        s.close(self)

    def cpu_of(self, threads, n_token=400):
        """Seconds of processor time, and of the clock, for an answer."""
        def two_cores():
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
        with subprocess.Popen([self.hayate, "run", common.MODEL, "a", "--threads", str(threads), "-n", str(n_token), "--temp", "0",
                               "--ignore-eos", "--ctx", "1024"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, env=common.clean_env(), preexec_fn=two_cores) as run:
            began = time.monotonic()
            err = run.stderr.read().decode()
            _, status, used = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(run.returncode, 0, err)
        return used.ru_utime + used.ru_stime, time.monotonic() - began

    def test_K7_more_threads_than_cores(self):
        """Threads that wait for those that do not run must sleep: with four threads on two cores, one of them busy, the work takes
        about the processor time that it takes with two. Another engine's took eighty times as long."""
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            print("skipped: one core")
            return
        pairs = []
        for _ in range(10):  # other tests and neighbours come and go: a pair that they left alone is enough
            plain = self.cpu_of(2)
            busy = subprocess.Popen([sys.executable, "-c", "import os\nos.sched_setaffinity(0, {%d})\nwhile True: pass" % cores[0]],
                                    stdin=subprocess.DEVNULL)
            try:
                crowded = self.cpu_of(4)
            finally:
                busy.kill()
                busy.wait()
            if crowded[0] < 8 * plain[0] + 1 and crowded[1] < 20 * plain[1] + 5:
                return
            pairs.append((plain, crowded))
        self.fail("seconds of processor and clock, two threads and four with a busy neighbour: %s" % pairs)


class Tools(Fault):
    flags = ("--ctx", "4096", "--parallel", "4", "--allow-template")
    TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {
        "type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}, "b": {"enum": ["x", "y"]}},
        "required": ["a", "b"], "additionalProperties": False}}}]

    def families(self):
        for name in ("Qwen-Qwen2.5-7B-Instruct", "Qwen3-Coder", "gguf-smollm2"):
            path = os.path.join(common.DATA, "templates", "templates", name + ".jinja")
            with open(path, encoding="utf-8") as f:
                yield name, f.read()

    def test_G2_two_calls(self):
        """The model may not end, so it calls again: every call but the last, which is cut, is whole, has an index and an id of its own."""
        met = 0
        for name, template in self.families():
            with self.subTest(family=name):
                body = {"messages": HELLO, "tools": self.TOOLS, "tool_choice": "required", "chat_template": template, "temperature": 1,
                        "seed": 4, "max_tokens": 700, "ignore_eos": True, "parallel_tool_calls": True}
                m = self.ok(CHAT, **body)["choices"][0]["message"]
                calls = m["tool_calls"]
                if len(calls) < 3:
                    continue
                met += 1
                self.assertEqual(len({c["id"] for c in calls}), len(calls))
                for c in calls[:-1]:
                    args = json.loads(c["function"]["arguments"])
                    self.assertEqual((c["function"]["name"], sorted(args)), ("add", ["a", "b"]))
                    self.assertTrue(args["a"] in range(10) and args["b"] in ("x", "y"))
                got = collections.defaultdict(lambda: {"id": [], "name": [], "arguments": ""})
                for k in self.stream(CHAT, **body):
                    for t in (k["choices"][0]["delta"].get("tool_calls") or []) if k["choices"] else []:
                        g = got[t["index"]]
                        g["id"] += [t["id"]] if t.get("id") else []
                        g["name"] += [t["function"]["name"]] if t["function"].get("name") else []
                        g["arguments"] += t["function"].get("arguments") or ""
                self.assertEqual(sorted(got), list(range(len(calls))))
                for i, c in enumerate(calls):
                    self.assertEqual((got[i]["name"], got[i]["arguments"]), ([c["function"]["name"]], c["function"]["arguments"]))
                    self.assertEqual(len(got[i]["id"]), 1)
        self.assertGreater(met, 0, "no family wrote two calls")

    def test_G2_two_requests_with_calls_at_once(self):
        _, template = next(self.families())
        body = {"messages": HELLO, "tools": self.TOOLS, "tool_choice": "required", "chat_template": template, "temperature": 1,
                "max_tokens": 300}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda s: self.ok(CHAT, **body, seed=s), range(8)))
        ids = [c["id"] for a in answers for c in a["choices"][0]["message"]["tool_calls"]]
        self.assertEqual(len(set(ids)), len(ids))
        self.assertEqual(len({a["id"] for a in answers}), 8)


class FullDisk(Case):
    flags = None

    def test_swap_without_room(self):
        """Paused requests' pages have no room on disk: they are computed again, and every answer is as alone."""
        def few_bytes():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        ask = lambda s, i: s.post(TEXT, {"prompt": [3 + (i * 31 + k) % 400 for k in range(40)], "max_tokens": 100, "ignore_eos": True,
                                        "temperature": 1, "seed": i, "cache_prompt": False}).json()["choices"][0]["text"]
        s = self.start("--ctx", "256")
        want = [ask(s, i) for i in range(12)]
        s.close(self)
        swap = self.path("swap")
        args = ("--ctx", "256", "--kv-tokens", "400", "--parallel", "12", "--kv-swap", swap)
        s = self.start(*args, preexec_fn=few_bytes)
        paused = 0
        for _ in range(20):
            for _ in range(30):  # answers seem to be short: too many are let in, some must pause
                self.assertEqual(s.post(TEXT, {"prompt": "a", "max_tokens": 1}).status, 200)
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                self.assertEqual(list(pool.map(lambda i: ask(s, i), range(12))), want)
            paused = s.get("/stats").json()["number"]["vllm:num_preemptions_total"]
            if paused:
                break
        self.assertGreater(paused, 0, "nobody was paused")
        s.close(self)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    Case.hayate = os.path.abspath(sys.argv.pop(1))
    with open(Case.hayate, "rb") as program:
        data = program.read()
        SANITIZED = b"__asan_init" in data or b"__tsan_init" in data
        del data
    unittest.main()
