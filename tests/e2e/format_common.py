"""What the tests of messages and responses share. Standard library only."""
import json
import os
import sys
import tempfile
import unittest

import common
import serve_common

# A template that thinks aloud and calls tools as Hermes and Qwen do.
THINKS = (
    "{%- if tools %}system:<tools>{{ tools | tojson }}</tools> <tool_call>\n{% endif %}"
    "{%- for m in messages %}{{ m.role }}:"
    "{%- if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}{{ m.content }}"
    "{%- for c in m.tool_calls or [] %}\n<tool_call>\n{{ c.function | tojson }}\n</tool_call>{% endfor %}\n{% endfor %}"
    "{%- if add_generation_prompt %}assistant:"
    "{%- if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n{% else %}<think>\n{% endif %}{% endif %}")

WEATHER = {"type": "object", "properties": {
    "city": {"type": "string", "maxLength": 6}, "days": {"type": "integer", "minimum": 1, "maximum": 3},
    "unit": {"enum": ["c", "f"]}}, "required": ["city", "days"]}
POINT = {"type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 9}, "on": {"type": "boolean"}},
         "required": ["x", "on"], "additionalProperties": False}


class FormatTest(unittest.TestCase):
    """One server for the tests of a class; template: instead of the model's own."""
    hayate = None
    template = None

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        model = common.MODEL
        if cls.template:
            gguf = common.Gguf(model).set("tokenizer.chat_template", common.STR, cls.template)
            model = gguf.write(os.path.join(cls.dir.name, "model.gguf"))
        cls.server = serve_common.Server(cls.hayate, "--ctx", "2048", "--parallel", "4", model=model)

    @classmethod
    def tearDownClass(cls):
        cls.server.close(unittest.TestCase())
        cls.dir.cleanup()

    def ok(self, path, **body):
        r = self.server.post(path, body)
        self.assertEqual(r.status, 200, r.body[:500])
        return r.json()

    def stream(self, path, **body):
        """[(event, data)]; the event's name and the data's type are the same."""
        r = self.server.post(path, {**body, "stream": True})
        self.assertEqual(r.status, 200, r.body[:500])
        self.assertTrue(r.getheader("content-type").startswith("text/event-stream"))
        out = []
        for frame in r.body.decode("utf-8").split("\n\n"):
            if not frame or frame.startswith(":"):
                continue
            event, data = frame.split("\n")
            self.assertTrue(event.startswith("event: ") and data.startswith("data: "), frame)
            data = json.loads(data[6:])
            self.assertEqual(event[7:], data["type"])
            out.append((event[7:], data))
        return out

    def check_weather(self, args):
        self.assertLessEqual(set(args), set(WEATHER["properties"]))
        self.assertIsInstance(args["city"], str)
        self.assertLessEqual(len(args["city"]), 6)
        self.assertIn(args["days"], (1, 2, 3))
        self.assertIn(args.get("unit", "c"), ("c", "f"))

    def check_point(self, v):
        self.assertEqual(sorted(v), ["on", "x"])
        self.assertIsInstance(v["on"], bool)
        self.assertIn(v["x"], range(10))


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: test_*.py HAYATE")
    FormatTest.hayate = os.path.abspath(sys.argv.pop(1))
    unittest.main()
