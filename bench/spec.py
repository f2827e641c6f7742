#!/usr/bin/env python3
"""What speculation gains and costs, measured in one run: each task is asked with it and without it in turns, of one
server, and the medians are compared. The two texts of a pair must be the same, or the run ends.

  spec.py HAYATE MODEL [--draft SMALL] [--who ngram self draft auto] [--repeats 5] [--tokens 96] [--streams 1 8 32]
          [--tasks copy edit chat json] [--out bench/results/spec.json]
  spec.py HAYATE SMOLLM2 --suite [--replay BENCH_REPLAY] [--only pad-bf16 ...]

--suite: what docs/speculation.md tells (bench/report.py makes its tables of bench/results/spec.json), in about ten minutes:
SmolLM2 135M (a GGUF in 4 bits), the same in BF16, and about 1 B parameters that agree with it as often as real pairs do
(tools/pad_model.py; made in the cache folder when they are first asked for, which is not part of the ten minutes: --make).
--replay: the answers of tests/data/spec/tasks.json on SMOLLM2 by the program bench_replay.

Tasks: copy (a text is to be repeated), edit (the same with one word changed), chat (questions; at temperature 1, too),
json (an object that follows a schema). speed: tokens a second after the first token, of all streams together."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import models
import results
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
    answer = servers.post(url, path, body)
    c = answer["choices"][0]
    out[i] = {"text": c["text"] if "text" in c else c["message"]["content"], "timings": answer["timings"]}


def together(url, task, first, n, who, tokens):
    """n requests at once: their texts and timings, tokens a second of all."""
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
    speed = timings[0]["predicted_per_second"] if n == 1 else sum(t["predicted_n"] for t in timings) / took
    return {"texts": [out[k]["text"] for k in sorted(out)], "speed": speed, "timings": timings}


def total(timings):
    """Tokens, drafted and accepted ones and these by place, of several answers."""
    places = max([len(t.get("draft_n_at", [])) for t in timings] + [0])
    at = {key: [sum(t[key][k] for t in timings if k < len(t.get(key, []))) for k in range(places)]
          for key in ("draft_n_at", "draft_n_accepted_at")}
    return {"tokens_seen": sum(t["predicted_n"] for t in timings), "answers": len(timings), "drafted": sum(at["draft_n_at"]),
            "accepted": sum(at["draft_n_accepted_at"]), "drafted_at": at["draft_n_at"], "accepted_at": at["draft_n_accepted_at"]}


def by_costs(costs, t):
    """How many times as fast one stream should be: its tokens, over what its steps cost by the curves measured at start. A
    step with k drafted tokens: c(1 + k) of the model, and k steps of the drafter."""
    c = sorted((int(k), v) for k, v in costs["model"]["rows"].items())
    drafter = costs["drafter"]["ms"] / costs["model"]["ms"] if "drafter" in costs else 0

    def of(n):
        (a, x), (b, y) = next((p, q) for p, q in zip(c, c[1:]) if n <= q[0])
        return x + (y - x) * (n - a) / (b - a)
    at = t["drafted_at"] + [0]
    steps = t["tokens_seen"] - t["answers"] - t["accepted"]  # the first token is the prompt's
    cost = steps - at[0] + sum((at[k - 1] - at[k]) * (of(1 + k) + k * drafter) for k in range(1, len(at)))
    return (t["tokens_seen"] - t["answers"]) / cost


def measure(url, task, who, streams, tokens, repeats):
    on, off, timings = [], [], []
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
        timings += got[who]["timings"]
    pairs = sorted(x / y for x, y in zip(on, off))
    r = {"off": statistics.median(off), "on": statistics.median(on), "gain": statistics.median(pairs), "gain_least": pairs[0],
         "gain_most": pairs[-1]}
    r.update(total(timings))
    r["acceptance"] = r["accepted"] / r["drafted"] if r["drafted"] else None
    r["first"] = r["accepted_at"][0] / r["drafted_at"][0] if r["drafted"] else None
    return r


# model, who drafts, tasks, streams, tokens, repeats; one server for those of a model and a proposer
SUITE = [
    ("small", "ngram", ["copy", "edit", "json", "chat", "chat@1"], 1, 96, 5),
    ("small", "ngram", ["copy", "chat@1"], 8, 48, 5),
    ("small", "ngram", ["chat@1"], 32, 48, 5),
    ("small-bf16", "self", ["chat", "chat@1"], 1, 96, 5),
    ("small-bf16", "self", ["chat@1"], 32, 32, 3),
    ("pad-bf16", "self", ["chat", "chat@1"], 1, 64, 5),
    ("pad-bf16", "draft", ["chat", "chat@1"], 1, 64, 5),
    ("pad-q8_0", "draft", ["chat", "chat@1"], 1, 64, 5),
    ("pad-q8_0", "draft", ["chat@1"], 8, 32, 3),
    ("pad-q8_0", "draft", ["chat@1"], 32, 24, 3),
    ("pad-q4_0", "draft", ["chat", "chat@1"], 1, 64, 5),
    ("pad-q4_0", "draft", ["chat@1"], 32, 24, 3),
]
LAYERS, SCALE = 240, 0.25
# of what they are made, and the type of the layers put in
PAD = {"pad-q8_0": ("small-q8_0", "q8_0"), "pad-q4_0": ("small", "q4_0"), "pad-bf16": ("small-bf16", "bf16")}


def model_of(name, a):
    """The file of a model of the suite; made if it is not there."""
    if name == "small":
        return a.model
    kept = name if name not in PAD else "%s-%d-%g" % (name, LAYERS, SCALE)
    path = os.path.join(models.cache_dir(), "spec-%s.gguf" % kept)
    if os.path.exists(path):
        return path
    if name in PAD:
        small, kind = PAD[name]
        command = [sys.executable, os.path.join(HERE, "..", "tools", "pad_model.py"), model_of(small, a), path + ".part", "--type",
                   kind, "--layers", str(LAYERS), "--scale", str(SCALE)]
    else:
        command = [a.hayate, "quantize", a.model, path + ".part", name[len("small-"):]]
    print("making", path, flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    os.rename(path + ".part", path)
    return path


def costs_of(log):
    """What rows cost, as the server measured it at start: ms of one row, and of more in times of that."""
    out = {}
    with open(log, encoding="utf-8", errors="replace") as f:
        for who, ms, rest in re.findall(r"draft: rows cost who=(\w+) ms=([\d.]+)((?: x\d+=[\d.]+)+)", f.read()):
            rows = {"1": 1.0, **{n: float(v) for n, v in re.findall(r"x(\d+)=([\d.]+)", rest)}}
            out[who] = {"ms": float(ms), "rows": rows}
    return out


def serve(a, name, model, draft, who, jobs, result):
    """One server for all jobs: tasks, streams, tokens, repeats."""
    streams = max(j[1] for j in jobs)
    command = [a.hayate, "serve", "{model}", "--port", "{port}", "--ctx", "2048", "--parallel", str(streams), "--log", "debug",
               "--kv-tokens", str(max(2048, 256 * streams)), "--no-prefix-cache", "--no-tuned", "--speculate", who,
               *(["--spec-max", str(a.spec_max)] if a.spec_max else []), *(["--draft", draft] if draft and who != "self" else [])]
    with tempfile.TemporaryDirectory() as d:
        log = os.path.join(d, "server.log")
        s = servers.Server(command, model, log)
        try:
            costs = costs_of(log)
            result["costs"]["%s %s" % (name, who)] = costs
            for tasks, n, tokens, repeats in jobs:
                for task in tasks:
                    r = measure(s.url, task, who, n, tokens, repeats)
                    r.update(task=task, who=who, streams=n, model=name, tokens=tokens, repeats=repeats,
                             by_costs=by_costs(costs, r) if n == 1 and "model" in costs else None)
                    result["table"].append(r)
                    keep(a, result)
                    show(r)
        finally:
            s.stop()


def keep(a, result):
    """After every row: a run that ends early leaves what it measured."""
    result["minutes"] = round((time.monotonic() - a.began) / 60, 1)
    if a.out:
        results.save(a.out, result)


def show(r):
    part = ["%.2f" % r[k] if r[k] is not None else "-" for k in ("acceptance", "first", "by_costs")]
    print("%-22s %-8s %-7s %7d %9.2f %9.2f %6.2f (%.2f, %.2f) %10s %6s %8s" %
          (r["model"][:22], r["task"], r["who"], r["streams"], r["off"], r["on"], r["gain"], r["gain_least"], r["gain_most"], *part),
          flush=True)


def replayed(a):
    """Given answers on the real model's clock: the list that bench_replay ends with."""
    r = subprocess.run([a.replay, a.model, os.path.join(HERE, "..", "tests", "data", "spec", "tasks.json"), "3"], check=True,
                       capture_output=True, text=True)
    text, _, rest = r.stdout.partition("\n[\n")
    print(text)
    return json.loads("[" + rest)


def commit():
    r = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return r.stdout.strip() or None


def run_suite(a, result):
    rows = [r for r in SUITE if not a.only or r[0] in a.only]
    files = {name: model_of(name, a) for name in dict.fromkeys(r[0] for r in rows)}
    if a.make:
        return
    for name, who in dict.fromkeys(r[:2] for r in rows):
        jobs = [r[2:] for r in rows if r[:2] == (name, who)]
        serve(a, name, files[name], a.model if who == "draft" else None, who, jobs, result)


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
    p.add_argument("--only", nargs="+", help="with --suite: these models")
    p.add_argument("--make", action="store_true", help="with --suite: makes the models and ends")
    p.add_argument("--replay")
    p.add_argument("--note", default="")
    p.add_argument("--out")
    a = p.parse_args()
    a.out = a.out or (os.path.join(HERE, "results", "spec.json") if a.suite and not a.only else None)
    a.began = time.monotonic()
    result = {"machine": servers.machine(), "model": os.path.basename(a.model), "note": a.note, "commit": commit(), "table": [],
              "costs": {}, "loads": [os.getloadavg()[0]], "pad": {"layers": LAYERS, "scale": SCALE}}
    if a.replay:
        result["replay"] = replayed(a)
    print("%-22s %-8s %-7s %7s %9s %9s %6s %13s %10s %6s %8s" % ("model", "task", "who", "streams", "off tok/s", "on tok/s", "gain",
                                                                "(least, most)", "acceptance", "first", "by costs"))
    if a.suite:
        run_suite(a, result)
    else:
        for who in a.who:
            jobs = [(a.tasks, n, a.tokens, a.repeats) for n in a.streams]
            serve(a, os.path.basename(a.model), a.model, a.draft, who, jobs, result)
    if a.make:
        return
    result["loads"].append(os.getloadavg()[0])
    keep(a, result)


if __name__ == "__main__":
    main()
