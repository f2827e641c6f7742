"""test_messages.py HAYATE: Anthropic's /v1/messages from outside. The rules are those of Anthropic's API reference
(Messages, Count tokens, Streaming messages, Tool use, Extended thinking, Errors)."""
import json

from format_common import POINT, THINKS, WEATHER, FormatTest, main

PATH, COUNT = "/v1/messages", "/v1/messages/count_tokens"
HI = [{"role": "user", "content": "Hello, who are you?"}]
TOOLS = [{"name": "get_weather", "description": "The weather", "input_schema": WEATHER},
         {"name": "now", "input_schema": {"type": "object", "properties": {}}}]


class Messages(FormatTest):
    def ask(self, messages=None, **k):
        return self.ok(PATH, **{"model": "m", "max_tokens": 300, "messages": messages or HI, "seed": 1, **k})

    def events(self, messages=None, **k):
        return self.stream(PATH, **{"model": "m", "max_tokens": 300, "messages": messages or HI, "seed": 1, **k})

    def put_together(self, events):
        """The message that a client makes of a stream; the order of events is checked."""
        names = [e for e, _ in events]
        self.assertEqual(names[0], "message_start")
        self.assertEqual(names[-2:], ["message_delta", "message_stop"])
        self.assertIn("ping", names)
        message, open_block = None, None
        for name, d in events:
            if name == "message_start":
                message = d["message"]
                self.assertEqual(message["content"], [])
                self.assertIsNone(message["stop_reason"])
            elif name == "content_block_start":
                self.assertIsNone(open_block)
                self.assertEqual(d["index"], len(message["content"]))
                open_block = dict(d["content_block"], partial="")
                self.assertEqual(open_block.get("text", ""), "")
                message["content"].append(open_block)
            elif name == "content_block_delta":
                self.assertEqual(d["index"], len(message["content"]) - 1)
                delta = d["delta"]
                key = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature",
                       "input_json_delta": "partial_json"}[delta["type"]]
                open_block["partial" if key == "partial_json" else key] += delta[key]
            elif name == "content_block_stop":
                self.assertEqual(d["index"], len(message["content"]) - 1)
                partial = open_block.pop("partial")
                if open_block["type"] == "tool_use" and partial:
                    open_block["input"] = json.loads(partial)
                open_block = None
            elif name == "message_delta":
                self.assertIsNone(open_block)
                message.update(d["delta"])
                message["usage"].update(d["usage"])
        return message

    def same(self, a, b):
        self.assertEqual([dict(x, id=0) for x in a["content"]], [dict(x, id=0) for x in b["content"]])
        for key in ("stop_reason", "stop_sequence", "role", "type", "model"):
            self.assertEqual(a[key], b[key])
        self.assertEqual(a["usage"]["output_tokens"], b["usage"]["output_tokens"])

    def refused(self, where, path=PATH, status=400, kind="invalid_request_error", **body):
        r = self.server.post(path, {"model": "m", "max_tokens": 5, "messages": HI, **body})
        self.assertEqual(r.status, status, r.body[:500])
        e = r.json()
        self.assertEqual(sorted(e), ["error", "request_id", "type"])
        self.assertEqual((e["type"], e["error"]["type"]), ("error", kind))
        self.assertEqual(e["request_id"], r.getheader("x-request-id"))
        self.assertTrue(e["error"]["message"].startswith(where), (where, e["error"]["message"]))


class Text(Messages):
    def test_shape(self):
        m = self.ask(max_tokens=7)
        self.assertEqual((m["type"], m["role"], m["stop_sequence"]), ("message", "assistant", None))
        self.assertTrue(m["id"].startswith("msg_"))
        self.assertEqual(m["stop_reason"], "max_tokens")
        self.assertEqual(m["usage"]["output_tokens"], 7)
        self.assertEqual([b["type"] for b in m["content"]], ["text"])

    def test_stream_is_the_same(self):
        for k in ({}, {"max_tokens": 20}, {"stop_sequences": ["e", "a"]}, {"system": "Be brief."}):
            self.same(self.put_together(self.events(**k)), self.ask(**k))

    def test_usage_counts_cached_tokens_apart(self):
        long = [{"role": "user", "content": "count these words " * 20}]
        n = self.ok(COUNT, model="m", messages=long)["input_tokens"]
        for _ in range(2):
            u = self.ask(long, max_tokens=2)["usage"]
            self.assertEqual(u["input_tokens"] + u["cache_read_input_tokens"], n)
            self.assertEqual(u["cache_creation_input_tokens"], 0)
        self.assertGreater(u["cache_read_input_tokens"], 0)
        u = self.put_together(self.events(long, max_tokens=2))["usage"]
        self.assertEqual(u["input_tokens"] + u["cache_read_input_tokens"], n)

    def test_system(self):
        n = [self.ok(COUNT, model="m", messages=HI, **k)["input_tokens"]
             for k in ({}, {"system": "one\ntwo"}, {"system": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]})]
        self.assertGreater(n[1], n[0])
        self.assertEqual(n[1], n[2])

    def test_stop_sequence(self):
        whole = self.ask()["content"][0]["text"]
        stop = whole[10:12]
        m = self.ask(stop_sequences=["never there", stop])
        self.assertEqual((m["stop_reason"], m["stop_sequence"]), ("stop_sequence", stop))
        self.assertEqual("".join(b["text"] for b in m["content"]), whole[:whole.index(stop)])

    def test_blocks_and_turns(self):
        a = self.ok(COUNT, model="m", messages=[{"role": "user", "content": "a\nb"}])
        b = self.ok(COUNT, model="m", messages=[{"role": "user", "content": [{"type": "text", "text": "a"}]},
                                                {"role": "user", "content": [{"type": "text", "text": "b"}]}])
        self.assertEqual(a, b)  # consecutive messages of a role are one

    def test_prefill(self):
        plain = self.ok(COUNT, model="m", messages=HI)["input_tokens"]
        u = self.ask(HI + [{"role": "assistant", "content": "The answer is"}], max_tokens=3)["usage"]
        self.assertGreater(u["input_tokens"] + u["cache_read_input_tokens"], plain)

    def test_structured(self):
        form = {"type": "json_schema", "schema": POINT}
        for k in ({"output_config": {"format": form}}, {"output_format": form}):
            for seed in (1, 2, 3):
                m = self.ask(seed=seed, **k)
                if m["stop_reason"] == "end_turn":
                    self.check_point(json.loads(m["content"][0]["text"]))

    def test_errors(self):
        user = lambda *blocks: [{"role": "user", "content": list(blocks)}]
        self.refused("max_tokens", max_tokens=0)
        self.refused("max_tokens", max_tokens=None)
        self.refused("max_tokens", max_tokens="5")
        self.refused("model", model=None)
        self.refused("messages", messages=None)
        self.refused("messages", messages=[])
        self.refused("messages", messages="x")
        self.refused("messages.0.role", messages=[{"role": "system", "content": "x"}])
        self.refused("messages.0.content", messages=[{"role": "user"}])
        self.refused("messages.1.content", messages=HI + [{"role": "user", "content": ""}])
        self.refused("messages.0.content.0.type", messages=user({}))
        self.refused("messages.0.content.1.type", messages=user({"type": "text", "text": "x"}, {"type": "image", "source": {}}))
        self.refused("messages.0.content.0.text", messages=user({"type": "text"}))
        self.refused("messages.0.content.0.tool_use_id", messages=user({"type": "tool_result", "tool_use_id": "t"}))
        self.refused("system.0.type", system=[{"type": "image"}])
        self.refused("temperature", temperature=1.5)
        self.refused("top_p", top_p=-1)
        self.refused("top_k", top_k=-2)
        self.refused("stop_sequences.1", stop_sequences=["a", ""])
        self.refused("stop_sequences", stop_sequences="a")
        self.refused("stream", stream=1)
        self.refused("tools.0.name", tools=[{"input_schema": {}}])
        self.refused("tools.1.name", tools=[TOOLS[0], {"name": "a b", "input_schema": {}}])
        self.refused("tools.0.input_schema", tools=[{"name": "a"}])
        self.refused("tools.0.type", tools=[{"type": "web_search_20250305", "name": "web_search"}])
        self.refused("tools", tools=[TOOLS[0], TOOLS[0]])
        self.refused("tool_choice.type", tools=TOOLS, tool_choice={"type": "must"})
        self.refused("tool_choice.name", tools=TOOLS, tool_choice={"type": "tool", "name": "gone"})
        self.refused("tool_choice", tool_choice={"type": "any"})
        self.refused("thinking.type", thinking={"type": "hard"})
        self.refused("thinking.budget_tokens", max_tokens=5000, thinking={"type": "enabled", "budget_tokens": 10})
        self.refused("thinking.budget_tokens", max_tokens=1024, thinking={"type": "enabled", "budget_tokens": 1024})
        self.refused("output_config.format.type", output_config={"format": {"type": "xml"}})
        self.refused("mcp_servers", mcp_servers=[{"url": "x"}])
        self.refused("messages", path=COUNT, messages=[])
        r = self.server.post(PATH, b"{", {"content-type": "application/json"})
        self.assertEqual((r.status, r.json()["error"]["type"]), (400, "invalid_request_error"))
        r = self.server.get(PATH, **{"anthropic-version": "2023-06-01"})
        self.assertEqual((r.status, r.json()["type"]), (405, "error"))
        r = self.server.post(PATH, {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "word " * 9000}]})
        self.assertEqual((r.status, r.json()["error"]["type"]), (400, "invalid_request_error"))


class Tools(Messages):
    def check_calls(self, m, only=None):
        calls = [b for b in m["content"] if b["type"] == "tool_use"]
        for c in calls:
            self.assertIn(c["name"], [only] if only else ["get_weather", "now"])
            if c["name"] == "get_weather":
                self.check_weather(c["input"])
            else:
                self.assertEqual(c["input"], {})
        return calls

    def finished(self, **k):
        """Answers of a random model that came to their end, and the same streamed."""
        n = 0
        for seed in range(80):
            m = self.ask(seed=seed, tools=TOOLS, **{"max_tokens": 500, **k})
            if m["stop_reason"] == "max_tokens":
                continue
            self.same(self.put_together(self.events(seed=seed, tools=TOOLS, **{"max_tokens": 500, **k})), m)
            n += 1
            yield m
            if n == 3:
                return
        self.assertGreater(n, 0)

    def test_any(self):
        for m in self.finished(tool_choice={"type": "any"}):
            self.assertEqual(m["stop_reason"], "tool_use")
            calls = self.check_calls(m)
            self.assertGreater(len(calls), 0)
            self.assertEqual(len({c["id"] for c in calls}), len(calls))

    def test_one(self):
        for m in self.finished(tool_choice={"type": "tool", "name": "get_weather"}):
            self.assertEqual(len(self.check_calls(m, "get_weather")), 1)

    def test_not_parallel(self):
        for m in self.finished(tool_choice={"type": "any", "disable_parallel_tool_use": True}):
            self.assertEqual(len(self.check_calls(m)), 1)

    def test_auto_and_none(self):
        for m in self.finished(max_tokens=200):
            self.check_calls(m)
        m = self.ask(tools=TOOLS, tool_choice={"type": "none"})
        self.assertNotIn("tool_use", [b["type"] for b in m["content"]])

    def test_results(self):
        m = next(self.finished(tool_choice={"type": "any"}))
        calls = self.check_calls(m)
        turns = HI + [{"role": "assistant", "content": m["content"]},
                      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": c["id"], "content": "20 degrees"} for c in calls]}]
        n = self.ok(COUNT, model="m", messages=turns, tools=TOOLS)["input_tokens"]
        turns[2]["content"][0].update(content=[{"type": "text", "text": "20 degrees"}, {"type": "text", "text": "and rain"}], is_error=True)
        self.assertGreater(self.ok(COUNT, model="m", messages=turns, tools=TOOLS)["input_tokens"], n)
        self.assertEqual(self.ask(turns, tools=TOOLS, max_tokens=3)["usage"]["output_tokens"], 3)
        self.refused("messages.1", messages=turns[:2], tools=TOOLS)


class HermesTools(Tools):
    template = THINKS.replace("<think>\n{% endif %}{% endif %}", "<think>\n\n</think>\n{% endif %}{% endif %}")


class Thinking(Messages):
    template = THINKS

    def test_thinking_blocks(self):
        m = self.ask(max_tokens=30)
        self.assertEqual([b["type"] for b in m["content"]], ["thinking"])
        self.assertTrue(m["content"][0]["signature"])
        self.same(self.put_together(self.events(max_tokens=30)), m)
        m = self.ask(max_tokens=1030, thinking={"type": "enabled", "budget_tokens": 1024}, stop_sequences=["a"])
        self.assertEqual([b["type"] for b in m["content"]], ["thinking"])

    def test_disabled(self):
        m = self.ask(max_tokens=30, thinking={"type": "disabled"})
        self.assertEqual([b["type"] for b in m["content"]], ["text"])

    def test_thoughts_come_back(self):
        turns = HI + [{"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm, hm.", "signature": "s"},
                                                        {"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "I am."}]}]
        n = self.ok(COUNT, model="m", messages=turns + HI)["input_tokens"]
        turns[1]["content"] = turns[1]["content"][2:]
        self.assertGreater(n, self.ok(COUNT, model="m", messages=turns + HI)["input_tokens"])

    def test_thoughts_then_form(self):
        """The form of the answer begins after the thoughts."""
        m = self.ask(max_tokens=60, output_config={"format": {"type": "json_schema", "schema": POINT}})
        self.assertEqual(m["content"][0]["type"], "thinking")
        m = self.ask(thinking={"type": "disabled"}, output_config={"format": {"type": "json_schema", "schema": POINT}})
        if m["stop_reason"] == "end_turn":
            self.check_point(json.loads(m["content"][-1]["text"]))


if __name__ == "__main__":
    main()
