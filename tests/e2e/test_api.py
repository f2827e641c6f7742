"""Completions, embeddings, tokenizing: the OpenAI-shaped routes other than chat. Standard library only."""
import base64
import math
import struct

from api_common import ApiTest, TEXT, main

PROMPT = "Once upon a time there was a king"


class Completions(ApiTest):
    def test_shape(self):
        r = self.text(PROMPT)
        self.assertEqual(r["object"], "text_completion")
        self.assertTrue(r["id"].startswith("cmpl-") and r["system_fingerprint"].startswith("fp_"))
        c = r["choices"][0]
        self.assertEqual((c["index"], c["finish_reason"], c["logprobs"]), (0, "length", None))
        u = r["usage"]
        self.assertEqual((u["completion_tokens"], u["total_tokens"]), (16, 16 + u["prompt_tokens"]))
        self.assertEqual(self.text(PROMPT)["choices"][0]["text"], c["text"])
        t = r["timings"]
        self.assertEqual(t["predicted_n"], 16)
        self.assertEqual(t["prompt_n"] + t["cached_n"], u["prompt_tokens"])
        self.assertEqual(t["cached_n"], u["prompt_tokens_details"]["cached_tokens"])

    def test_max_tokens(self):
        for n in (1, 5):
            self.assertEqual(self.text(max_tokens=n)["usage"]["completion_tokens"], n)
        self.assertEqual(self.ok(TEXT, prompt="a", temperature=0, ignore_eos=True)["usage"]["completion_tokens"], 16)
        self.assertEqual(self.text(max_tokens=2.0)["usage"]["completion_tokens"], 2)
        r = self.text("a", max_tokens=-1, ignore_eos=True)
        self.assertEqual(r["usage"]["total_tokens"], 512)
        r = self.text(PROMPT, max_tokens=0)
        self.assertEqual((r["choices"][0]["text"], r["usage"]["completion_tokens"]), ("", 0))

    def test_prompts(self):
        ids = self.ok("/tokenize", content=PROMPT, add_special=True)["tokens"]
        one, two = self.text(PROMPT)["choices"][0]["text"], self.text("Alpha")["choices"][0]["text"]
        self.assertEqual(self.text(ids)["choices"][0]["text"], one)
        for many in ([PROMPT, "Alpha"], [ids, "Alpha"]):
            r = self.text(many)
            self.assertEqual([(c["index"], c["text"]) for c in r["choices"]], [(0, one), (1, two)])
        r = self.text([PROMPT, "Alpha"], n=2)
        self.assertEqual([(c["index"], c["text"]) for c in r["choices"]], [(0, one), (1, one), (2, two), (3, two)])
        n = self.text(PROMPT)["usage"]["prompt_tokens"] + self.text("Alpha")["usage"]["prompt_tokens"]
        self.assertEqual(r["usage"]["prompt_tokens"], n)
        r = self.text(["a%d" % i for i in range(90)], max_tokens=1)
        self.assertEqual([c["index"] for c in r["choices"]], list(range(90)))

    def test_stream_equals_plain(self):
        for more in ({}, {"temperature": 1.5, "seed": -3}, {"n": 2, "temperature": 1, "seed": 5}, {"echo": True},
                     {"logprobs": 2, "echo": True}):
            full = self.text(PROMPT, **more)
            chunks = self.stream(TEXT, prompt=PROMPT, max_tokens=16, **{"temperature": 0, **more})
            for c in full["choices"]:
                mine = [k["choices"][0] for k in chunks if k["choices"] and k["choices"][0]["index"] == c["index"]]
                self.assertEqual("".join(k["text"] for k in mine), c["text"])
                self.assertEqual([k["finish_reason"] for k in mine][-1], c["finish_reason"])
                self.assertTrue(all(k["finish_reason"] is None for k in mine[:-1]))
                if c["logprobs"]:
                    for key in c["logprobs"]:
                        joined = sum((k["logprobs"][key] for k in mine if k["logprobs"]), [])
                        self.assertEqual(joined, c["logprobs"][key])
            self.assertTrue(all("usage" not in k for k in chunks))
            self.assertEqual(len({k["id"] for k in chunks}), 1)

    def test_stream_usage(self):
        chunks = self.stream(TEXT, prompt=PROMPT, max_tokens=4, stream_options={"include_usage": True}, ignore_eos=True)
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"], 4)
        self.assertTrue(all(c["usage"] is None for c in chunks[:-1]))
        chunks = self.stream(TEXT, prompt=PROMPT, max_tokens=4, ignore_eos=True,
                             stream_options={"include_usage": True, "continuous_usage_stats": True})
        self.assertTrue(all(c["usage"] for c in chunks))

    def test_seeds(self):
        a, b = (self.text(PROMPT, temperature=1, seed=-9223372036854775808)["choices"][0]["text"] for _ in range(2))
        self.assertEqual(a, b)
        self.assertGreater(len({self.text(PROMPT, temperature=1, seed=i)["choices"][0]["text"] for i in range(4)}), 1)
        self.assertGreater(len({self.text(PROMPT, temperature=1)["choices"][0]["text"] for i in range(4)}), 1)
        # answer i of n draws with seed + i
        r = self.text(PROMPT, temperature=1, seed=40, n=3)
        self.assertEqual([c["text"] for c in r["choices"]],
                         [self.text(PROMPT, temperature=1, seed=40 + i)["choices"][0]["text"] for i in range(3)])

    def test_stop(self):
        full = self.text(PROMPT, max_tokens=32, ignore_eos=True)["choices"][0]["text"]
        for a, b in ((3, 5), (1, 9), (6, 7), (4, 14)):
            s = full[a:b]
            for stop in (s, [s], ["\u2603\u2603", s]):
                body = {"max_tokens": 32, "stop": stop, "ignore_eos": True, "temperature": 0}
                c = self.text(PROMPT, **body)["choices"][0]
                self.assertEqual((c["text"], c["finish_reason"], c["stop_reason"]), (full[:full.index(s)], "stop", s))
                chunks = self.stream(TEXT, prompt=PROMPT, **body)
                self.assertEqual("".join(k["choices"][0]["text"] for k in chunks), full[:full.index(s)])

    def test_stop_token_ids(self):
        r = self.text(PROMPT, max_tokens=24, ignore_eos=True, return_token_ids=True)["choices"][0]
        ids = r["token_ids"]
        k = next(i for i in range(4, 24) if ids[i] not in ids[:i])
        s = self.text(PROMPT, max_tokens=24, ignore_eos=True, return_token_ids=True, stop_token_ids=[ids[k]])
        c = s["choices"][0]
        self.assertEqual((c["token_ids"], c["finish_reason"], c["stop_reason"]), (ids[:k], "stop", ids[k]))
        self.assertTrue(r["text"].startswith(c["text"]))
        self.assertEqual(s["usage"]["completion_tokens"], k)
        self.assertEqual("".join(c["choices"][0]["text"] for c in self.stream(
            TEXT, prompt=PROMPT, max_tokens=24, temperature=0, ignore_eos=True, stop_token_ids=[ids[k]])), c["text"])

    def test_min_tokens(self):
        # the end token would come at once, and comes as soon as it may
        end = {"prompt": PROMPT, "max_tokens": 20, "logit_bias": {"511": 100}}
        self.assertEqual(self.text(**end)["usage"]["completion_tokens"], 0)
        r = self.text(**end, min_tokens=7)
        self.assertEqual((r["usage"]["completion_tokens"], r["choices"][0]["finish_reason"]), (7, "stop"))
        self.assertEqual(self.text(**end, ignore_eos=True)["usage"]["completion_tokens"], 20)
        r = self.text(PROMPT, max_tokens=24, min_tokens=10, return_token_ids=True, ignore_eos=True)["choices"][0]
        s = self.text(PROMPT, max_tokens=24, min_tokens=10, return_token_ids=True, ignore_eos=True,
                      stop_token_ids=r["token_ids"])["choices"][0]
        self.assertEqual(s["token_ids"], r["token_ids"][:10])

    def test_logprobs(self):
        r = self.text(PROMPT, logprobs=3, max_tokens=8, ignore_eos=True)["choices"][0]
        lp = r["logprobs"]
        for key in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            self.assertEqual(len(lp[key]), 8)
        for t, own, top in zip(lp["tokens"], lp["token_logprobs"], lp["top_logprobs"]):
            self.assertIn(len(top), (3, 4))
            self.assertEqual(top[t], own)
            self.assertEqual(own, max(top.values()))  # greedy
            self.assertLessEqual(sum(map(math.exp, top.values())), 1.001)
        r = self.text(PROMPT, logprobs=0, max_tokens=3)["choices"][0]["logprobs"]
        self.assertIsNone(r["top_logprobs"])
        self.assertTrue(all(x <= 0 for x in r["token_logprobs"]))

    def test_echo(self):
        r = self.text(PROMPT, echo=True, logprobs=1, max_tokens=0)
        lp = r["choices"][0]["logprobs"]
        self.assertEqual(r["choices"][0]["text"], PROMPT)
        self.assertEqual(r["usage"]["completion_tokens"], 0)
        self.assertEqual("".join(lp["tokens"]), PROMPT)
        self.assertIsNone(lp["token_logprobs"][0])
        self.assertTrue(all(x <= 0 for x in lp["token_logprobs"][1:]))
        for t, at in zip(lp["tokens"], lp["text_offset"]):
            self.assertEqual(PROMPT[at:at + len(t)], t)
        # the logprob of a token does not depend on how it was asked for: its own answer says the same
        full = self.text(PROMPT, logprobs=1, max_tokens=6, ignore_eos=True)["choices"][0]
        ids = self.ok("/tokenize", content=PROMPT, add_special=True)["tokens"]
        more = self.text(PROMPT, return_token_ids=True, max_tokens=6, ignore_eos=True)["choices"][0]["token_ids"]
        again = self.text(ids + more, echo=True, logprobs=1, max_tokens=0)["choices"][0]["logprobs"]
        self.assertIsNone(again["token_logprobs"][0])
        for a, b in zip(again["token_logprobs"][-6:], full["logprobs"]["token_logprobs"]):
            self.assertAlmostEqual(a, b, places=4)
        self.assertTrue(self.text(PROMPT, echo=True)["choices"][0]["text"].startswith(PROMPT))

    def test_prompt_logprobs(self):
        c = self.text(PROMPT, prompt_logprobs=2, return_token_ids=True)["choices"][0]
        self.assertEqual(len(c["prompt_logprobs"]), len(c["prompt_token_ids"]))
        self.assertIsNone(c["prompt_logprobs"][0])
        for i, entry in zip(c["prompt_token_ids"][1:], c["prompt_logprobs"][1:]):
            self.assertIn(str(i), entry)
            self.assertIn(len(entry), (2, 3))

    def test_best_of(self):
        all_ = self.text(PROMPT, temperature=1, seed=3, n=4, logprobs=0, ignore_eos=True)["choices"]
        best = max(all_, key=lambda c: sum(c["logprobs"]["token_logprobs"]))
        r = self.text(PROMPT, temperature=1, seed=3, best_of=4, ignore_eos=True)
        self.assertEqual([c["text"] for c in r["choices"]], [best["text"]])
        self.assertEqual(r["usage"]["completion_tokens"], 64)

    def test_logit_bias(self):
        r = self.text(PROMPT, logit_bias={"300": 100}, max_tokens=4, return_token_ids=True)
        self.assertEqual(r["choices"][0]["token_ids"], [300] * 4)
        ids = self.text(PROMPT, max_tokens=1, return_token_ids=True, ignore_eos=True)["choices"][0]["token_ids"]
        r = self.text(PROMPT, max_tokens=1, return_token_ids=True, logit_bias={str(ids[0]): -100}, ignore_eos=True)
        self.assertNotEqual(r["choices"][0]["token_ids"], ids)

    def test_hot_text_is_valid(self):
        """Hot sampling gives broken UTF-8: the JSON is valid, streamed or not, and equal (T1, T3)."""
        for seed in range(4):
            body = {"prompt": PROMPT, "max_tokens": 64, "temperature": 8, "seed": seed, "ignore_eos": True,
                    "logprobs": 1}
            full = self.ok(TEXT, **body)["choices"][0]
            chunks = self.stream(TEXT, **body)
            self.assertEqual("".join(c["choices"][0]["text"] for c in chunks), full["text"])
            self.assertEqual(len(full["logprobs"]["tokens"]), 64)

    def test_refused(self):
        bad = [("temperature", 999999), ("temperature", "NaN"), ("temperature", -1), ("top_p", -1), ("top_p", 1.5),
               ("repeat_penalty", 0), ("repetition_penalty", 0), ("min_p", 2), ("typical_p", -0.1), ("n", 0), ("n",
                   129),
               ("max_tokens", -5), ("max_tokens", 1.5), ("max_tokens", 1e300), ("stop", 5), ("stop", ["a", 1]),
               ("stop", ""), ("stop", ["a"] * 65), ("seed", "abc"), ("seed", 1.5), ("logit_bias", [1]),
               ("logit_bias", {"x": 1}), ("logit_bias", {"1": "y"}), ("logit_bias", {"1": 101}),
               ("logit_bias", {"99999": 1}), ("logprobs", 21), ("logprobs", -1), ("logprobs", "3"),
               ("prompt_logprobs", -1), ("prompt_logprobs", 10 ** 9), ("frequency_penalty", 3), ("stream", "yes"),
               ("best_of", 0), ("suffix", "x"), ("min_tokens", 2), ("min_tokens", -1), ("mirostat", 2), ("n_keep",
                   700), ("n_discard", -1),
               ("samplers", ["top_k"]), ("use_beam_search", True), ("deadline_ms", 0), ("cache_salt", ""),
               ("stop_token_ids", ["a"]), ("response_format", "json"), ("truncate_prompt_tokens", 5)]
        for key, v in bad:
            with self.subTest(field=key, value=v):
                self.refused(TEXT, {"prompt": "a", "max_tokens": 1, key: v}, param=key, says=key)
        for v in (5, {"a": 1}, None, True, [None], [["a", 1]], [], [[]], [-3, 5], [999999999], [1.5], [["a"]]):
            with self.subTest(prompt=v):
                self.refused(TEXT, {"prompt": v, "max_tokens": 1}, param="prompt")
        self.refused(TEXT, {"max_tokens": 1}, param="prompt", says="missing")
        self.refused(TEXT, {"prompt": "a", "n": 3, "best_of": 2}, param="best_of")
        self.refused(TEXT, {"prompt": "a", "best_of": 2, "stream": True}, param="best_of")
        self.refused(TEXT, {"prompt": "a", "stream_options": {"include_usage": True}}, param="stream_options")
        e = self.refused(TEXT, {"prompt": "word " * 3000, "max_tokens": 1}, says=("context", "512"))
        self.assertEqual(e["code"], "context_length_exceeded")
        self.refused(TEXT, {"prompt": "word " * 3000, "max_tokens": 1, "stream": True})

    def test_neutral_and_unknown_fields(self):
        self.ok(TEXT, prompt="a", max_tokens=1, no_such_field=[1], suffix="", best_of=1, mirostat=0, min_tokens=0,
                user="u",
                stop=None, n=None, logit_bias=None, model=None, dry_multiplier=0.0, echo=None)

    def test_numbers_as_text_are_not_numbers(self):
        for v in ("1", True, [1], {}):
            self.refused(TEXT, {"prompt": "a", "top_k": v}, param="top_k")


class Embeddings(ApiTest):
    def embed(self, x, **k):
        return self.ok("/v1/embeddings", input=x, encoding_format="float", **k)

    def test_vectors(self):
        r = self.embed(["alpha beta", "gamma", "alpha beta"])
        self.assertEqual((r["object"], [d["index"] for d in r["data"]]), ("list", [0, 1, 2]))
        for d in r["data"]:
            self.assertEqual(len(d["embedding"]), 64)
            self.assertAlmostEqual(sum(x * x for x in d["embedding"]), 1, places=5)
        self.assertEqual(r["data"][0]["embedding"], r["data"][2]["embedding"])
        self.assertEqual(self.embed("gamma")["data"][0]["embedding"], r["data"][1]["embedding"])
        self.assertEqual(r["usage"]["prompt_tokens"], r["usage"]["total_tokens"])
        self.assertNotEqual(self.embed("alpha beta", pooling="last")["data"][0]["embedding"], r["data"][0]["embedding"])

    def test_base64_and_ids(self):
        a = self.embed("alpha beta")["data"][0]["embedding"]
        b = self.ok("/v1/embeddings", input="alpha beta", encoding_format="base64")["data"][0]["embedding"]
        b = struct.unpack("<64f", base64.b64decode(b, validate=True))
        self.assertTrue(all(abs(x - y) < 1e-7 for x, y in zip(a, b)))
        ids = self.ok("/tokenize", content="alpha beta", add_special=True)["tokens"]
        self.assertEqual(self.embed(ids)["data"][0]["embedding"], a)
        self.assertEqual(self.embed([ids, ids])["usage"]["prompt_tokens"], 2 * len(ids))

    def test_many(self):
        r = self.embed(["text %d" % (i % 7) for i in range(150)])
        self.assertEqual([d["index"] for d in r["data"]], list(range(150)))
        for i in range(7, 150):
            self.assertEqual(r["data"][i]["embedding"], r["data"][i % 7]["embedding"])

    def test_refused(self):
        for v in ([], None, 5, {"a": 1}, "", [""], [1.5], [["a"]], [-1], [99999], ["a", 1]):
            with self.subTest(input=v):
                self.refused("/v1/embeddings", {"input": v}, param="input")
        self.refused("/v1/embeddings", {"input": ["a"] * 2049}, param="input", says="2048")
        self.refused("/v1/embeddings", {"input": "a", "dimensions": 16}, param="dimensions", says="64")
        self.refused("/v1/embeddings", {"input": "a", "encoding_format": "hex"}, param="encoding_format")
        self.ok("/v1/embeddings", input="a", dimensions=64)
        e = self.refused("/v1/embeddings", {"input": "word " * 3000})
        self.assertEqual(e["code"], "context_length_exceeded")


class Tokenize(ApiTest):
    def test_round_trip(self):
        for text in ("Hello, wörld! 🚀", "", "  a  b\n\n", "日本語", "<|eot_id|>", "a\tb\u007f\uffff"):
            r = self.ok("/tokenize", content=text)
            self.assertEqual(r["count"], len(r["tokens"]))
            self.assertEqual(self.ok("/detokenize", tokens=r["tokens"])["content"], text)

    def test_special(self):
        bos = self.ok("/tokenize", content="a", add_special=True)["tokens"]
        self.assertEqual(bos[1:], self.ok("/tokenize", content="a")["tokens"])
        self.assertEqual(self.ok("/tokenize", prompt="a")["tokens"], bos)
        self.assertEqual(self.ok("/tokenize", content="<|eot_id|>")["tokens"], [511])
        self.assertGreater(len(self.ok("/tokenize", content="<|eot_id|>", parse_special=False)["tokens"]), 1)
        self.assertEqual(self.ok("/detokenize", tokens=[511], skip_special_tokens=True)["content"], "")

    def test_pieces(self):
        r = self.ok("/tokenize", content="é🚀", with_pieces=True)["tokens"]
        raw = b"".join(bytes(t["piece"]) if isinstance(t["piece"], list) else t["piece"].encode() for t in r)
        self.assertEqual(raw.decode(), "é🚀")
        r = self.ok("/tokenize", content="ab cd", return_token_strs=True)
        self.assertEqual("".join(r["token_strs"]), "ab cd")

    def test_refused(self):
        self.refused("/tokenize", {}, param="content")
        self.refused("/tokenize", {"content": 5}, param="content")
        self.refused("/detokenize", {}, param="tokens")
        for v in (5, ["a"], [1.5], [-1], [512]):
            self.refused("/detokenize", {"tokens": v}, param="tokens")


if __name__ == "__main__":
    main()
