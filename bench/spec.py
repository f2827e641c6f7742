#!/usr/bin/env python3
"""What speculation gains and costs, measured in one run: each task is asked with it and without it in turns, of one
server, and the medians are compared. The two texts of a pair must be the same, or the run ends.

  spec.py HAYATE MODEL [--draft SMALL] [--who ngram self draft auto] [--repeats 5] [--tokens 96] [--streams 1 8 32]
          [--tasks copy edit chat json] [--out bench/results/spec.json]

Tasks: copy (a text is to be repeated), edit (the same with one word changed), chat (questions; at temperature 1, too),
json (an object that follows a schema). speed: tokens a second after the first token, of all streams together."""
import argparse
import json
import os
import statistics
import tempfile
import threading
import time
import urllib.request

import servers

HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = ("The old lighthouse keeper wrote in his journal every evening. On Monday he noted the wind, the height of the waves "
        "and the number of ships that had passed since dawn. On Tuesday a storm came from the west and the lamp burned "
        "all night. On Wednesday two fishermen brought him bread, salted fish and a letter from his sister, who lived "
        "in the harbour town and had not visited him for eleven years.")
CODE = ("def area(shape):\n    if shape.kind == 'circle':\n        return 3.14159 * shape.radius * shape.radius\n"
        "    if shape.kind == 'square':\n        return shape.side * shape.side\n    if shape.kind == 'triangle':\n"
        "        return 0.5 * shape.base * shape.height\n    raise ValueError(shape.kind)\n")
ASKED = ["Tell me a story about a fox and a river.", "What should one pack for a week in the mountains?",
         "Explain how a bicycle stays upright.", "Write a letter to a friend about the first day of spring."]
SCHEMA = {"type": "object", "additionalProperties": False, "required": ["name", "age", "city", "hobbies", "married"],
          "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 1, "maximum": 99},
                         "city": {"type": "string", "maxLength": 20}, "married": {"type": "boolean"},
                         "hobbies": {"type": "array", "minItems": 2, "maxItems": 4, "items": {"type": "string", "maxLength": 16}}}}


def question(task, i):
    """Path and body of the i-th request of a task; a number in front keeps prompts apart."""
    if task == "copy":
        return "/v1/completions", {"prompt": "%d.\n%s\n\nThe same text again:\n\n%d.\n" % (i, TEXT, i), "temperature": 0}
    if task == "edit":
        return "/v1/completions", {"prompt": "# version %d\n%s\n# the same with `figure` for `shape`\n%s" %
                                   (i, CODE, CODE.replace("shape", "figure")[:60]), "temperature": 0}
    if task == "json":
        return "/v1/chat/completions", {"messages": [{"role": "user", "content": "Describe person %d as JSON." % i}],
                                        "temperature": 0,
                                        "response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA}}}
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": ASKED[i % len(ASKED)]}],
                                    "temperature": 1 if task == "chat@1" else 0}


def ask(url, task, i, who, tokens, out):
    path, body = question(task, i)
    body.update(max_tokens=tokens, seed=1000 + i, speculate=who)
    r = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(r, timeout=3600) as f:
        answer = json.load(f)
    c = answer["choices"][0]
    out[i] = {"text": c["text"] if "text" in c else c["message"]["content"], "timings": answer["timings"]}


def together(url, task, first, n, who, tokens):
    """n requests at once: their texts, tokens a second of all, drafted and accepted."""
    out, t0 = {}, time.monotonic()
    threads = [threading.Thread(target=ask, args=(url, task, first + k, who, tokens, out)) for k in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    took = time.monotonic() - t0
    if len(out) != n:
        raise SystemExit("%s: %d of %d requests failed" % (task, n - len(out), n))
    timings = [out[k]["timings"] for k in sorted(out)]
    alone = timings[0]
    speed = alone["predicted_per_second"] if n == 1 else sum(t["predicted_n"] for t in timings) / took
    return {"texts": [out[k]["text"] for k in sorted(out)], "speed": speed, "drafted": sum(t["draft_n"] for t in timings),
            "accepted": sum(t["draft_n_accepted"] for t in timings)}


def measure(url, task, who, streams, a):
    on, off, drafted, accepted = [], [], 0, 0
    together(url, task, 0, 1, "off", 4)
    for k in range(a.repeats):
        first = k * streams
        turns = [("off", off), (who, on)]
        got = {}
        for name, speeds in turns if k % 2 == 0 else turns[::-1]:
            got[name] = together(url, task, first, streams, name, a.tokens)
            speeds.append(got[name]["speed"])
        if got["off"]["texts"] != got[who]["texts"]:
            raise SystemExit("%s with %s: the texts differ" % (task, who))
        drafted += got[who]["drafted"]
        accepted += got[who]["accepted"]
    pairs = sorted(x / y for x, y in zip(on, off))
    return {"off": statistics.median(off), "on": statistics.median(on), "gain": statistics.median(pairs), "gain_least": pairs[0],
            "gain_most": pairs[-1], "drafted": drafted, "accepted": accepted,
            "acceptance": accepted / drafted if drafted else None}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("hayate")
    p.add_argument("model")
    p.add_argument("--draft")
    p.add_argument("--who", nargs="+", default=["ngram"])
    p.add_argument("--tasks", nargs="+", default=["copy", "edit", "json", "chat", "chat@1"])
    p.add_argument("--streams", nargs="+", type=int, default=[1])
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--tokens", type=int, default=96)
    p.add_argument("--spec-max", type=int, default=8)
    p.add_argument("--note", default="")
    p.add_argument("--out", default=os.path.join(HERE, "results", "spec.json"))
    a = p.parse_args()
    table = []
    print("%-8s %-7s %7s %9s %9s %6s %13s %10s" % ("task", "who", "streams", "off tok/s", "on tok/s", "gain", "(least, most)", "acceptance"))
    for who in a.who:
        command = [a.hayate, "serve", "{model}", "--port", "{port}", "--ctx", "2048", "--parallel", str(max(a.streams)),
                   "--kv-tokens", str(max(2048, 768 * max(a.streams))), "--no-prefix-cache", "--speculate", who,
                   "--spec-max", str(a.spec_max), *(["--draft", a.draft] if a.draft and who != "self" else [])]
        s = servers.Server(command, a.model, os.path.join(tempfile.mkdtemp(), "server.log"))
        try:
            for streams in a.streams:
                for task in a.tasks:
                    r = measure(s.url, task, who, streams, a)
                    r.update(task=task, who=who, streams=streams)
                    table.append(r)
                    print("%-8s %-7s %7d %9.2f %9.2f %6.2f (%.2f, %.2f) %10s" % (task, who, streams, r["off"], r["on"], r["gain"],
                          r["gain_least"], r["gain_most"], "%.2f" % r["acceptance"] if r["drafted"] else "-"), flush=True)
        finally:
            s.stop()
    result = {"machine": servers.machine(), "model": os.path.basename(a.model), "draft": a.draft and os.path.basename(a.draft),
              "tokens": a.tokens, "repeats": a.repeats, "note": a.note, "table": table}
    with open(a.out, "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1, sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    main()
