#!/usr/bin/env python3
"""What speculation gains and costs, measured in one run: each task is asked with it and without it in turns, of one
server, and the medians are compared. The two texts of a pair must be the same, or the run ends.

  spec.py HAYATE MODEL [--draft SMALL] [--who ngram self draft auto] [--repeats 5] [--tokens 96] [--streams 1 8 32]
          [--tasks copy edit chat json] [--out bench/results/spec.json]
  spec.py HAYATE SMOLLM2 --suite [--replay BENCH_REPLAY]

--suite: what docs/speculation.md tells, in under ten minutes: SmolLM2 135M (a GGUF in 4 bits), the same in BF16, and
about 1 B parameters that agree with it as often as real pairs do (tools/pad_model.py; made in the cache folder).
--replay: the answers of tests/data/spec/tasks.json on SMOLLM2 by the program bench_replay.

Tasks: copy (a text is to be repeated), edit (the same with one word changed), chat (questions; at temperature 1, too),
json (an object that follows a schema). speed: tokens a second after the first token, of all streams together."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import models
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


def measure(url, task, who, streams, tokens, repeats):
    on, off, drafted, accepted = [], [], 0, 0
    together(url, task, 0, 1, "off", 4)
    for k in range(repeats):
        first = k * streams
        turns = [("off", off), (who, on)]
        got = {}
        for name, speeds in turns if k % 2 == 0 else turns[::-1]:
            got[name] = together(url, task, first, streams, name, tokens)
            speeds.append(got[name]["speed"])
        if got["off"]["texts"] != got[who]["texts"]:
            raise SystemExit("%s with %s: the texts differ" % (task, who))
        drafted += got[who]["drafted"]
        accepted += got[who]["accepted"]
    pairs = sorted(x / y for x, y in zip(on, off))
    return {"off": statistics.median(off), "on": statistics.median(on), "gain": statistics.median(pairs), "gain_least": pairs[0],
            "gain_most": pairs[-1], "drafted": drafted, "accepted": accepted,
            "acceptance": accepted / drafted if drafted else None}


# model, who drafts, tasks, streams, tokens, repeats
SUITE = [
    ("small", "ngram", ["copy", "edit", "json", "chat", "chat@1"], 1, 96, 5),
    ("small", "ngram", ["chat@1"], 32, 48, 3),
    ("small-bf16", "self", ["chat", "chat@1"], 1, 96, 5),
    ("pad-bf16", "self", ["chat"], 1, 48, 3),
    ("pad-bf16", "draft", ["chat"], 1, 48, 3),
    ("pad-q8_0", "draft", ["chat", "chat@1"], 1, 64, 3),
    ("pad-q8_0", "draft", ["chat@1"], 32, 24, 2),
    ("pad-q4_0", "draft", ["chat", "chat@1"], 1, 64, 3),
]
PAD = {"pad-q8_0": ("q8_0", 240), "pad-q4_0": ("q4_0", 240), "pad-bf16": ("bf16", 240)}


def model_of(name, a):
    """The file of a model of the suite; made if it is not there."""
    if name == "small":
        return a.model
    path = os.path.join(models.cache_dir(), "spec-%s.gguf" % name)
    if not os.path.exists(path):
        print("making", path, flush=True)
        tmp = path + ".part"
        if name == "small-bf16":
            command = [a.hayate, "quantize", a.model, tmp, "bf16"]
        else:
            kind, layers = PAD[name]
            command = [sys.executable, os.path.join(HERE, "..", "tools", "pad_model.py"), a.model, tmp, "--type", kind,
                       "--layers", str(layers)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        os.rename(tmp, path)
    return path


def serve(a, model, draft, who, tasks, streams, tokens, repeats, table):
    """One server for all tasks and numbers of streams."""
    command = [a.hayate, "serve", "{model}", "--port", "{port}", "--ctx", "2048", "--parallel", str(max(streams)),
               "--kv-tokens", str(max(2048, 768 * max(streams))), "--no-prefix-cache", "--speculate", who,
               *(["--spec-max", str(a.spec_max)] if a.spec_max else []), *(["--draft", draft] if draft and who != "self" else [])]
    s = servers.Server(command, model, os.path.join(tempfile.mkdtemp(), "server.log"))
    try:
        for n in streams:
            for task in tasks:
                r = measure(s.url, task, who, n, tokens, repeats)
                r.update(task=task, who=who, streams=n, model=os.path.basename(model), tokens=tokens, repeats=repeats)
                table.append(r)
                print("%-22s %-8s %-7s %7d %9.2f %9.2f %6.2f (%.2f, %.2f) %10s" % (r["model"][:22], task, who, n, r["off"], r["on"],
                      r["gain"], r["gain_least"], r["gain_most"], "%.2f" % r["acceptance"] if r["drafted"] else "-"), flush=True)
    finally:
        s.stop()


def replayed(a):
    """Given answers on the real model's clock: the list that bench_replay ends with."""
    r = subprocess.run([a.replay, a.model, os.path.join(HERE, "..", "tests", "data", "spec", "tasks.json"), "3"], check=True,
                       capture_output=True, text=True)
    text, _, rest = r.stdout.partition("\n[\n")
    print(text)
    return json.loads("[" + rest)


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
    p.add_argument("--spec-max", type=int)
    p.add_argument("--suite", action="store_true")
    p.add_argument("--replay")
    p.add_argument("--note", default="")
    p.add_argument("--out")
    a = p.parse_args()
    table, result = [], {"machine": servers.machine(), "model": os.path.basename(a.model), "note": a.note}
    files = {name: model_of(name, a) for name in dict.fromkeys(row[0] for row in SUITE)} if a.suite else {}
    if a.replay:
        result["replay"] = replayed(a)
    print("%-22s %-8s %-7s %7s %9s %9s %6s %13s %10s" % ("model", "task", "who", "streams", "off tok/s", "on tok/s", "gain",
                                                        "(least, most)", "acceptance"))
    if a.suite:
        for name, who, tasks, streams, tokens, repeats in SUITE:
            serve(a, files[name], a.model if who == "draft" else None, who, tasks, [streams], tokens, repeats, table)
    else:
        for who in a.who:
            serve(a, a.model, a.draft, who, a.tasks, a.streams, a.tokens, a.repeats, table)
    result["table"] = table
    out = a.out or os.path.join(HERE, "results", "spec-suite.json" if a.suite else "spec.json")
    with open(out, "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1, sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    main()
