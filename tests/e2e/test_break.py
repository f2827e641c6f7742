"""What once broke, or would have: errors that named the wrong thing, numbers beyond 64 bits, the same bits in any company."""
import json
import random
import sys
import threading
import unittest

import serve_common as S

GEN, CHAT = "/v1/completions", "/v1/chat/completions"
SMALL = {"prompt": "a", "max_tokens": 2}
TALK = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2, "chat_template": "{{messages[0].content}}"}
PROMPT = [5 + i * 7 % 200 for i in range(70)]
GREEDY = {"prompt": PROMPT, "max_tokens": 40, "temperature": 0, "logprobs": 3, "ignore_eos": True,
          "return_token_ids": True}


class Errors(S.Case):
    flags = ("--ctx", "256", "--queue", "8", "--allow-template")

    def refused(self, path, body, param, code):
        r = self.server.post(path, body, {"Content-Type": "application/json"})
        self.assertEqual(r.status, 400, r.body)
        e = r.json()["error"]
        self.assertEqual((e["param"], e["code"]), (param, code), e)

    def test_only_the_context_is_context_length(self):
        """Clients cut the prompt and try again when they see that code."""
        self.refused(GEN, dict(SMALL, prompt="word " * 900), "prompt", "context_length_exceeded")
        self.refused(GEN, dict(SMALL, guided_regex="((a{1000}){1000}){1000}"), "guided_regex", "unsupported")
        self.refused(CHAT, dict(TALK, response_format={"type": "json_schema", "json_schema": {
            "name": "x", "schema": {"type": "string", "pattern": "((a{1000}){1000}){1000}"}}}),
            "response_format", "unsupported")
        self.refused(GEN, dict(SMALL, n=20), "n", "invalid_request")
        spin = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
        self.refused(CHAT, dict(TALK, chat_template=spin), "messages", "invalid_request")
        tools = [{"type": "function", "function": {"name": "f%d" % i}} for i in range(5000)]
        self.refused(CHAT, dict(TALK, tools=tools), "tools", "invalid_request")

    def test_integers_beyond_64_bits(self):
        for field in ("top_k", "max_tokens", "seed", "n"):
            body = '{"prompt":"a","max_tokens":2,"%s":99999999999999999999999}' % field
            if field == "max_tokens":
                body = body.replace('"max_tokens":2,', "")
            self.refused(GEN, body.encode(), field, "invalid_request")

    def test_schemas_with_the_largest_numbers(self):
        inside = ('{"type":"object","properties":{"s":{"type":"string","maxLength":65536},'
                  '"a":{"type":"array","maxItems":18446744073709551615},'
                  '"u":{"type":"integer","minimum":0,"maximum":18446744073709551615},'
                  '"f":{"type":"number","minimum":-1.7976931348623157e308,"maximum":1.7976931348623157e308}}}')
        body = '{"prompt":"a","max_tokens":2,"guided_json":{"properties":{"x":%s},"type":"object"}}' % inside
        r = self.server.post(GEN, body.encode(), {"Content-Type": "application/json"})
        self.assertEqual(r.status, 200, r.body)

    def test_reals_beyond_a_double(self):
        r = self.server.post(GEN, b'{"prompt":"a","max_tokens":2,"temperature":1e999}', {"Content-Type": "application/json"})
        self.assertEqual(r.status, 400)
        self.assertIn("1e999", r.json()["error"]["message"])


def signature(choice):
    p = choice["logprobs"]
    return choice["token_ids"], choice["text"], p["token_logprobs"], p["top_logprobs"]


class SameBits(S.Case):
    """One greedy prompt: alone, again, four times at once, among others that come and go."""
    flags = None

    def ask(self, server, **more):
        r = server.post(GEN, dict(GREEDY, **more))
        self.assertEqual(r.status, 200, r.body)
        return [signature(c) for c in r.json()["choices"]]

    def other(self, server, seed, enough):
        rnd = random.Random(seed)
        while not enough.is_set():
            prompt = PROMPT[:rnd.randrange(60)] + [rnd.randrange(5, 250) for _ in range(rnd.randrange(1, 100))]
            x = server.raw()
            x.request("POST", GEN, {"prompt": prompt, "max_tokens": rnd.randrange(1, 90), "temperature": 1, "seed": seed,
                                    "stream": True, "ignore_eos": True, "n": rnd.choice((1, 1, 2))}, "Connection: close")
            if rnd.random() < 0.5:
                for _ in range(rnd.randrange(1, 20)):
                    x.f.readline()
            else:
                x.ended()
            x.close()

    def check(self, *flags):
        server = S.Server(self.hayate, "--ctx", "256", *flags)
        want = self.ask(server)[0]
        again = self.ask(server) + self.ask(server, n=4) + self.ask(server, cache_prompt=False)
        enough = threading.Event()
        others = [threading.Thread(target=self.other, args=(server, i, enough)) for i in range(12)]
        for t in others:
            t.start()
        try:
            for more in ({}, {"n": 4}, {"cache_prompt": False}):
                again += self.ask(server, **more)
        finally:
            enough.set()
            for t in others:
                t.join()
        for got in again:
            self.assertEqual(got, want)
        server.close(self)
        return want

    def test_in_any_company(self):
        want = self.check("--parallel", "16")
        self.assertEqual(self.check("--parallel", "16", "--kv-tokens", "384"), want)
        self.assertEqual(self.check("--parallel", "8", "--speculate", "ngram", "--spec-always", "--step", "48"), want)


if __name__ == "__main__":
    S.Case.hayate = sys.argv.pop(1)
    unittest.main()
