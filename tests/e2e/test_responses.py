"""test_responses.py HAYATE: OpenAI's /v1/responses from outside. The rules are those of OpenAI's API reference
(Responses, Streaming events)."""
import json

from format_common import POINT, THINKS, WEATHER, FormatTest, main

PATH = "/v1/responses"
TOOLS = [{"type": "function", "name": "get_weather", "description": "The weather", "parameters": WEATHER, "strict": True},
         {"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}}}]


class Responses(FormatTest):
    def ask(self, given="Hello, who are you?", **k):
        return self.ok(PATH, **{"model": "m", "input": given, "max_output_tokens": 300, "seed": 1, **k})

    def events(self, given="Hello, who are you?", **k):
        return self.stream(PATH, **{"model": "m", "input": given, "max_output_tokens": 300, "seed": 1, **k})

    def put_together(self, events):
        """The last response of a stream; deltas and done events must agree with it, in order."""
        self.assertEqual([d["sequence_number"] for _, d in events], list(range(len(events))))
        names = [e for e, _ in events]
        self.assertEqual(names[:2], ["response.created", "response.in_progress"])
        self.assertIn(names[-1], ("response.completed", "response.incomplete"))
        self.assertEqual((events[0][1]["response"]["status"], events[0][1]["response"]["output"]), ("in_progress", []))
        items, texts, done, opened = [], [], [], False
        for name, d in events[2:-1]:
            if name == "response.output_item.added":
                self.assertFalse(opened)
                self.assertEqual(d["output_index"], len(items))
                self.assertEqual(d["item"]["status"], "in_progress")
                items.append(d["item"])
                texts.append("")
                opened = True
                continue
            self.assertEqual(d["output_index"], len(items) - 1)
            self.assertTrue(opened)
            if name == "response.output_item.done":
                done.append(d["item"])
                self.assertEqual(d["item"]["id"], items[-1]["id"])
                opened = False
                continue
            self.assertEqual(d["item_id"], items[-1]["id"])
            kind = items[-1]["type"]
            if name.endswith(".delta"):
                self.assertEqual(name, {"message": "response.output_text.delta", "reasoning": "response.reasoning_text.delta",
                                        "function_call": "response.function_call_arguments.delta"}[kind])
                texts[-1] += d["delta"]
            elif name in ("response.output_text.done", "response.reasoning_text.done"):
                self.assertEqual(d["text"], texts[-1])
            elif name == "response.function_call_arguments.done":
                self.assertEqual(d["arguments"], texts[-1])
            elif name == "response.content_part.done":
                self.assertEqual(d["part"]["text"], texts[-1])
            else:
                self.assertEqual(name, "response.content_part.added")
        self.assertFalse(opened)
        last = events[-1][1]["response"]
        self.assertEqual(last["output"], done)
        self.assertEqual(names[-1], "response." + last["status"])
        for item, text in zip(last["output"], texts):
            self.assertEqual(item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"], text)
        return last

    def bare(self, r):
        return [{k: v for k, v in i.items() if k not in ("id", "call_id")} for i in r["output"]]

    def same(self, a, b):
        self.assertEqual(self.bare(a), self.bare(b))
        self.assertEqual(a["status"], b["status"])
        self.assertEqual(a["usage"]["output_tokens"], b["usage"]["output_tokens"])

    def refused(self, param, **body):
        r = self.server.post(PATH, {"model": "m", "input": "x", "max_output_tokens": 3, **body})
        self.assertEqual(r.status, 400, r.body[:500])
        e = r.json()["error"]
        self.assertEqual((e["param"], e["type"]), (param, "invalid_request_error"), e)
        self.assertTrue(e["message"].startswith(param), e)

    def text(self, r):
        return "".join(p["text"] for i in r["output"] if i["type"] == "message" for p in i["content"])


class Text(Responses):
    def test_shape(self):
        r = self.ask(max_output_tokens=5, metadata={"a": "b"}, temperature=0.5, instructions="Be brief.")
        self.assertEqual((r["object"], r["status"]), ("response", "incomplete"))
        self.assertEqual(r["incomplete_details"], {"reason": "max_output_tokens"})
        self.assertEqual((r["metadata"], r["temperature"], r["instructions"]), ({"a": "b"}, 0.5, "Be brief."))
        self.assertTrue(r["id"].startswith("resp_"))
        self.assertFalse(r["store"])
        u = r["usage"]
        self.assertEqual(u["output_tokens"], 5)
        self.assertEqual(u["total_tokens"], u["input_tokens"] + 5)
        item, = r["output"]
        self.assertEqual((item["type"], item["role"], item["status"]), ("message", "assistant", "incomplete"))
        self.assertEqual(item["content"][0]["annotations"], [])

    def test_stream_is_the_same(self):
        for k in ({}, {"max_output_tokens": 4}, {"instructions": "Be brief."}):
            self.same(self.put_together(self.events(**k)), self.ask(**k))

    def test_turns(self):
        n = self.ask(max_output_tokens=1)["usage"]["input_tokens"]
        turns = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}]
        r = self.ask(turns, max_output_tokens=2)
        turns += r["output"] + [{"type": "message", "role": "user", "content": "Again?"}]
        self.assertGreater(self.ask(turns, max_output_tokens=1)["usage"]["input_tokens"], n)

    def test_form(self):
        form = {"format": {"type": "json_schema", "name": "point", "schema": POINT, "strict": True}}
        for seed in range(4):
            r = self.ask(text=form, seed=seed)
            if r["status"] == "completed":
                self.check_point(json.loads(self.text(r)))
                self.same(self.put_together(self.events(text=form, seed=seed)), r)
        r = self.ask(text={"format": {"type": "json_object"}})
        self.assertTrue(self.text(r).lstrip().startswith("{"))

    def test_logprobs(self):
        r = self.ask(max_output_tokens=4, top_logprobs=2, include=["message.output_text.logprobs"])
        tokens = r["output"][0]["content"][0]["logprobs"]
        self.assertEqual(len(tokens), 4)
        self.assertEqual(len(tokens[0]["top_logprobs"]), 2)

    def test_errors(self):
        user = lambda *parts: [{"role": "user", "content": list(parts)}]
        self.refused("input", input=None)
        self.refused("input", input=[])
        self.refused("input", input=5)
        self.refused("input[0]", input=[1])
        self.refused("input[0].role", input=[{"role": "boss", "content": "x"}])
        self.refused("input[0].content", input=[{"role": "user"}])
        self.refused("input[0].content[1].type", input=user({"type": "input_text", "text": "x"}, {"type": "input_image"}))
        self.refused("input[0].type", input=[{"type": "item_reference", "id": "x"}])
        self.refused("input[0].call_id", input=[{"type": "function_call_output", "call_id": "c", "output": "x"}])
        self.refused("input[0].arguments", input=[{"type": "function_call", "call_id": "c", "name": "n"}])
        self.refused("temperature", temperature=3)
        self.refused("max_output_tokens", max_output_tokens=0)
        self.refused("stream", stream="yes")
        self.refused("previous_response_id", previous_response_id="resp_1")
        self.refused("background", background=True)
        self.refused("tools[0].type", tools=[{"type": "web_search"}])
        self.refused("tools[0].name", tools=[{"type": "function"}])
        self.refused("tools[1].name", tools=[TOOLS[0], TOOLS[0]])
        self.refused("tool_choice", tools=TOOLS, tool_choice="must")
        self.refused("tool_choice.name", tools=TOOLS, tool_choice={"type": "function", "name": "gone"})
        self.refused("text.format.type", text={"format": {"type": "xml"}})
        self.refused("text.format.schema", text={"format": {"type": "json_schema"}})


class Tools(Responses):
    def finished(self, **k):
        """Answers of a random model that came to their end, and the same streamed."""
        n = 0
        for seed in range(80):
            k = {"max_output_tokens": 500, **k}
            r = self.ask(seed=seed, tools=TOOLS, **k)
            if r["status"] != "completed":
                continue
            self.same(self.put_together(self.events(seed=seed, tools=TOOLS, **k)), r)
            n += 1
            yield r
            if n == 3:
                return
        self.assertGreater(n, 0)

    def check_calls(self, r, only=None):
        calls = [i for i in r["output"] if i["type"] == "function_call"]
        for c in calls:
            self.assertIn(c["name"], [only] if only else ["get_weather", "now"])
            args = json.loads(c["arguments"])
            if c["name"] == "get_weather":
                self.check_weather(args)
            else:
                self.assertEqual(args, {})
        return calls

    def test_required(self):
        for r in self.finished(tool_choice="required"):
            self.assertGreater(len(self.check_calls(r)), 0)

    def test_named(self):
        for r in self.finished(tool_choice={"type": "function", "name": "get_weather"}):
            self.assertEqual(len(self.check_calls(r, "get_weather")), 1)

    def test_allowed(self):
        allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "now"}]}
        for r in self.finished(tool_choice=allowed, parallel_tool_calls=False):
            self.assertEqual(len(self.check_calls(r, "now")), 1)

    def test_schemas_that_cannot_be_enforced(self):
        odd = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True, "items": {"type": "string"}}}}
        tool = {"type": "function", "name": "f", "parameters": odd}
        self.ask(tools=[tool], max_output_tokens=2)
        r = self.server.post(PATH, {"model": "m", "input": "x", "max_output_tokens": 2, "tools": [dict(tool, strict=True)]})
        self.assertEqual(r.status, 400, r.body)
        self.assertIn("uniqueItems", r.json()["error"]["message"])

    def test_results(self):
        r = next(self.finished(tool_choice="required"))
        calls = self.check_calls(r)
        turns = [{"role": "user", "content": "Hello"}] + r["output"]
        self.refused("input", input=turns, tools=TOOLS)
        turns += [{"type": "function_call_output", "call_id": c["call_id"], "output": "20 degrees"} for c in calls]
        self.ask(turns, tools=TOOLS, max_output_tokens=2)
        turns[-1]["output"] = [{"type": "input_text", "text": "20"}]
        self.ask(turns, tools=TOOLS, max_output_tokens=2)


class Reasoning(Responses):
    template = THINKS

    def test_reasoning(self):
        r = self.ask(max_output_tokens=20)
        item, = r["output"]
        self.assertEqual((item["type"], item["summary"]), ("reasoning", []))
        self.assertEqual(item["content"][0]["type"], "reasoning_text")
        self.assertEqual(r["usage"]["output_tokens_details"]["reasoning_tokens"], r["usage"]["output_tokens"])
        self.same(self.put_together(self.events(max_output_tokens=20)), r)
        r = self.ask(max_output_tokens=20, reasoning={"effort": "none"})
        self.assertEqual([i["type"] for i in r["output"]], ["message"])

    def test_thoughts_come_back(self):
        turns = [{"role": "user", "content": "Hello"},
                 {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm, hm."}]},
                 {"role": "assistant", "content": "I am."}, {"role": "user", "content": "And?"}]
        n = self.ask(turns, max_output_tokens=1)["usage"]["input_tokens"]
        del turns[1]
        self.assertGreater(n, self.ask(turns, max_output_tokens=1)["usage"]["input_tokens"])


if __name__ == "__main__":
    main()
