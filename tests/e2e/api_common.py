"""What the tests of the OpenAI-shaped routes share. Standard library only."""
import json
import sys
import unittest

import serve_common

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "Hello there, who are you?"}]


class ApiTest(unittest.TestCase):
    """One server for all tests of a class."""
    flags = ("--ctx", "512", "--parallel", "4")
    hayate = None

    @classmethod
    def setUpClass(cls):
        cls.server = serve_common.Server(cls.hayate, *cls.flags)

    @classmethod
    def tearDownClass(cls):
        cls.server.close(unittest.TestCase())

    def ok(self, path, **body):
        r = self.server.post(path, body)
        self.assertEqual(r.status, 200, r.body[:500])
        return r.json()

    def refused(self, path, body, param=None, status=400, says=None):
        r = self.server.post(path, body)
        self.assertEqual(r.status, status, r.body[:500])
        e = r.json()["error"]
        self.assertIsInstance(e["message"], str)
        self.assertIsInstance(e["type"], str)
        if param:
            self.assertEqual(e["param"], param, e)
        for word in [says] if isinstance(says, str) else says or ():
            self.assertIn(word, e["message"])
        return e

    def text(self, prompt="Once upon a time", **k):
        return self.ok(TEXT, **{"prompt": prompt, "max_tokens": 16, "temperature": 0, **k})

    def chat(self, messages=None, **k):
        return self.ok(CHAT, **{"messages": messages or HELLO, "max_tokens": 16, "temperature": 0, **k})

    def stream(self, path, **body):
        """The events of a stream, [DONE] checked."""
        r = self.server.post(path, {**body, "stream": True})
        self.assertEqual(r.status, 200, r.body[:500])
        self.assertTrue(r.getheader("content-type").startswith("text/event-stream"))
        frames = [f for f in r.body.decode("utf-8").split("\n\n") if f and not f.startswith(":")]
        self.assertTrue(all(f.startswith("data: ") for f in frames), frames[:3])
        self.assertEqual(frames.pop(), "data: [DONE]")
        return [json.loads(f[6:]) for f in frames]


def main():
    ApiTest.hayate = sys.argv.pop(1)
    unittest.main(verbosity=2)
