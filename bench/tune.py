#!/usr/bin/env python3
"""The proof of `hayate tune`: for every model and goal what it finds, and that against the defaults as users meet them.

  tune.py HAYATE [MODEL...] [--goals ttft throughput memory] [--minutes 11] [--fresh] [--out bench/results/tune.json]

Models: names of bench/models.py or files; without any SmolLM2, Gemma and a Llama of 1.2 B. After each search two servers run, one
with the defaults, one with the settings found, and are asked in turns, defaults - tuned - defaults, what the goal is about: the
time of a prompt of 512 tokens; tokens a second of 8 streams (prose, a copy, an edit, JSON); bytes of the memory ledger. This is
independent of the search, so it can say that a gain does not hold. The ratio is the median over the rounds, above 1: tuned is
better; its interval is that of the median (95 %, by ranks), and the defaults against themselves say how far two equal things differ
here. At the end the same program with half a processor (control group): how many threads it takes, and what two would cost.

Each result is written at once, and a second call goes on where the first stopped (--fresh: not). Status 1 where the tuned settings
are worse beyond the noise. The searches use a cache folder of their own: what the user has tuned stays. tools/guide.py makes the
table of docs/tuning.md."""
import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import half_core
import models
import results
import servers
import spec

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = ["smollm2-q4_1", "gemma3-q4_k_m", "llama1b-q8_0"]
STREAMS, ANSWER, PROMPT = 8, 32, 512
TASKS = ["chat", "copy", "edit", "json"]
SEARCH = 0.62           # of a row's time; the rest is for the check
HALF_S = 50             # of the whole, for half a core
ROUNDS = 15             # at most


# ---- numbers ------------------------------------------------------------------------------------------------------

def interval(v):
    """Median, and where it lies with 95 % by ranks; with fewer than 6 the least and the most."""
    v, n = sorted(v), len(v)
    half = 0.98 * math.sqrt(n)
    low, high = (0, n - 1) if n < 6 else (max(0, int(n / 2 - half)), min(n - 1, int(math.ceil(n / 2 + half))))
    return {"median": statistics.median(v), "low": v[low], "high": v[high]}


def verdict(ratio, same):
    """Better or worse only where the interval says so, and by more than the defaults differ from themselves."""
    noise = max(abs(same["median"] - 1), (same["high"] - same["low"]) / 2)
    if ratio["low"] > 1 and ratio["median"] - 1 > min(noise, 0.05):
        return "better"
    return "worse" if ratio["high"] < 1 and 1 - ratio["median"] > min(noise, 0.05) else "equal"


# ---- the check ----------------------------------------------------------------------------------------------------

class Side:
    """A server, and what is asked of it. No prompt comes twice, so nothing is found in a cache."""

    def __init__(self, a, model, more, folder, name):
        info = json.loads(subprocess.run([a.hayate, "info", model, "--json"], stdout=subprocess.PIPE, check=True).stdout)
        shape, self.chats = info["shape"], info["tokenizer"]["chat_template"]
        self.vocabulary, self.n_prompt = shape["vocabulary"], min(PROMPT, shape["context_trained"] // 2)
        self.server = servers.Server([a.hayate, "serve", "{model}", "--port", "{port}", "--parallel", str(STREAMS), *more], model,
                                     os.path.join(folder, name + ".log"))
        self.rnd, self.n = random.Random(name), 0

    def ttft(self, n=None):
        """Milliseconds of one prompt to its first token; the median of n, or of as many as fit into a fifth of a second."""
        took, end = [], time.monotonic() + 0.2
        while len(took) < (n or 1) or (not n and time.monotonic() < end and len(took) < 7):
            ids = [self.rnd.randrange(self.vocabulary // 8, self.vocabulary // 2) for _ in range(self.n_prompt)]
            t0 = time.monotonic()
            servers.post(self.server.url, "/v1/completions", {"prompt": ids, "max_tokens": 1, "temperature": 0})
            took.append(1e3 * (time.monotonic() - t0))
        return statistics.median(took)

    def throughput(self):
        """Tokens a second of all streams at once."""
        made = []

        def ask(i):
            path, body = spec.question(TASKS[i % len(TASKS)], self.n + i)
            if not self.chats and "messages" in body:
                path, body["prompt"] = "/v1/completions", body.pop("messages")[0]["content"] + "\n"
            body.update(max_tokens=ANSWER, seed=1, ignore_eos="response_format" not in body)
            made.append(servers.post(self.server.url, path, body)["usage"]["completion_tokens"])
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(STREAMS)]
        t0 = time.monotonic()
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        took = time.monotonic() - t0
        self.n += STREAMS
        if len(made) != STREAMS:
            raise SystemExit("%d of %d requests failed" % (STREAMS - len(made), STREAMS))
        return sum(made) / took

    def memory(self):
        """MiB of the ledger without the program's own files and the heap's slack."""
        with urllib.request.urlopen(self.server.url + "/metrics", timeout=60) as f:
            lines = f.read().decode().splitlines()
        rows = [line for line in lines if line.startswith("hayate_memory_bytes{")]
        return sum(float(r.rsplit(" ", 1)[1]) for r in rows if not any('purpose="%s"' % k in r for k in ("files", "other"))) / 2 ** 20

    def measure(self, goal):
        """The goal's number, and beside it both speeds where memory is the goal: of as many prompts on either side, whose keys
        and values stay in the cache and count."""
        if goal != "memory":
            return {goal: getattr(self, goal)()}
        return {"throughput": self.throughput(), "ttft": self.ttft(3), "memory": self.memory()}


def gain(key, off, on):
    """Above 1: on is better."""
    return on / off if key == "throughput" else off / on


def check(a, model, goal, config, seconds):
    """Both sides in turns."""
    with tempfile.TemporaryDirectory() as d:
        conf = os.path.join(d, "tuned.conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write(config)
        end, sides, values = time.monotonic() + seconds, [], {}
        try:
            for name, more in (("defaults", ["--no-tuned"]), ("tuned", ["--tuned", conf])):
                sides.append(Side(a, model, more, d, name))  # one by one: what runs is stopped
            for s in sides:
                s.measure(goal)
            ratios, same, n, t0 = {}, {}, 0, time.monotonic()
            while n < 3 or (n < ROUNDS and time.monotonic() + (time.monotonic() - t0) / n < end):
                turn = [sides[0].measure(goal), sides[1].measure(goal), sides[0].measure(goal)]
                for key in turn[0]:
                    off = (turn[0][key] + turn[2][key]) / 2
                    ratios.setdefault(key, []).append(gain(key, off, turn[1][key]))
                    same.setdefault(key, []).append(gain(key, turn[0][key], turn[2][key]))
                    values.setdefault(key, []).append((off, turn[1][key]))
                n += 1
        finally:
            for s in sides:
                s.server.stop()
    out = {"rounds": n, "ratio": interval(ratios[goal]), "same": interval(same[goal]),
           "defaults": statistics.median(x for x, _ in values[goal]), "tuned": statistics.median(y for _, y in values[goal])}
    out["verdict"] = verdict(out["ratio"], out["same"])
    out["beside"] = {key: interval(v) for key, v in ratios.items() if key != goal}
    return out


# ---- the search ---------------------------------------------------------------------------------------------------

def tune(a, model, goal, minutes, enter=(), more=()):
    for longer in (1, 3):  # a slow or busy machine: once more with more time
        command = [*enter, a.hayate, "tune", model, "--goal", goal, "--minutes", "%.3f" % (longer * minutes), "--fresh", "--json", "--quiet",
                   *more]
        r = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if r.returncode == 0:
            return json.loads(r.stdout)
    raise SystemExit("%s, %s: status %d" % (model, goal, r.returncode))


def settings(o):
    return {s["name"]: s["choice"] for s in o["settings"] if s["choice"] != s["default"]}


def row(a, model, goal, seconds):
    load, t0 = os.getloadavg()[0], time.monotonic()
    o = tune(a, model, goal, SEARCH * seconds / 60)
    out = {"model": o["model"]["file"], "goal": goal, "unit": o["unit"], "settings": settings(o), "load": load,
           "search": {k: o[k] for k in ("seconds", "measurements", "gain", "spread", "out_of_time", "in_limits", "asked")},
           "tried": {s["name"]: s["tried"] for s in o["settings"] if s["tried"]}}
    if out["settings"]:
        out["check"] = check(a, model, goal, o["config"], seconds - (time.monotonic() - t0))
    out["verdict"] = out["check"]["verdict"] if out["settings"] else "equal"
    return out


def half_a_core(a, model):
    """Threads that tune takes with half a processor, and the speeds of one and of two there."""
    with half_core.limited() as (how, enter):
        if not how:
            return {"skipped": "neither a control group nor a mount namespace can be made here"}
        out = {"how": how, "model": os.path.basename(model), "threads": {}, "speeds": {}}
        for goal in ("ttft", "throughput", "memory"):
            o = tune(a, model, goal, 0.15, enter, ["-p", "64", "-n", "8", "--streams", "2"])
            out["threads"][goal] = {s["name"]: s["choice"] for s in o["settings"] if s["name"].startswith("threads")}
            out["quota"] = o["machine"].partition("quota ")[2][:4]
        if how == "real":
            for turn in range(2):
                for n in (1, 2) if turn == 0 else (2, 1):
                    r = subprocess.run([*enter, a.hayate, "bench", model, "-p", "64", "-n", "16", "-r", "3", "-t", str(n), "--json",
                                        "--no-tuned", "--quiet"], stdout=subprocess.PIPE, text=True, check=True)
                    for line in map(json.loads, r.stdout.splitlines()):
                        out["speeds"].setdefault(line["test"], {}).setdefault(str(n), []).extend(line["tps"])
        return out


# ---- all ----------------------------------------------------------------------------------------------------------

def say(r):
    c = r.get("check")
    print("%-34s %-11s %-40s %s" % (r["model"], r["goal"], " ".join("%s=%s" % kv for kv in r["settings"].items()) or "the defaults",
          "%.1f -> %.1f %s: %.3f (%.3f to %.3f), the defaults against themselves %.3f (%.3f to %.3f), %d rounds: %s" % (
              c["defaults"], c["tuned"], r["unit"], c["ratio"]["median"], c["ratio"]["low"], c["ratio"]["high"], c["same"]["median"],
              c["same"]["low"], c["same"]["high"], c["rounds"], r["verdict"]) if c else "equal: nothing is set"), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("hayate")
    p.add_argument("models", nargs="*", default=MODELS)
    p.add_argument("--goals", nargs="+", default=["ttft", "throughput", "memory"])
    p.add_argument("--minutes", type=float, default=11)
    p.add_argument("--fresh", action="store_true")
    p.add_argument("--out", default=os.path.join(HERE, "results", "tune.json"))
    a = p.parse_args()
    paths = [models.path_of(name, a.hayate) for name in a.models]
    data = {} if a.fresh or not os.path.exists(a.out) else results.load(a.out)
    data = data if isinstance(data, dict) and data.get("machine", {}).get("cpu") == servers.machine().get("cpu") else {}
    data.update(machine=servers.machine(), hayate=subprocess.run([a.hayate, "--version"], capture_output=True, text=True).stdout.strip())
    rows = data.setdefault("rows", [])
    # a large model takes longer to measure
    weight = {path: 0.6 + 2e-9 * os.path.getsize(path) for path in paths}
    unit = max(1, a.minutes * 60 - HALF_S) / sum(weight[path] * len(a.goals) for path in paths)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HAYATE_CACHE"] = cache
        for path in paths:
            for goal in a.goals:
                if any(r["model"] == os.path.basename(path) and r["goal"] == goal for r in rows):
                    continue
                rows.append(row(a, path, goal, unit * weight[path]))
                say(rows[-1])
                results.save(a.out, data)
        if "half_core" not in data:
            data["half_core"] = half_a_core(a, paths[0])
            results.save(a.out, data)
    h = data["half_core"]
    print("half a core: " + h.get("skipped", "%s group, quota %s: threads %s; tokens/s %s" % (
        h.get("how"), h.get("quota"), h.get("threads"), {t: {n: round(statistics.median(v), 1) for n, v in s.items()}
                                                         for t, s in h.get("speeds", {}).items()})))
    return 1 if any(r["verdict"] == "worse" for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
