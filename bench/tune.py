#!/usr/bin/env python3
"""What `hayate tune` finds, for models and goals: the ratio of the tuned number to that of the defaults, both measured in turns at
the end of each search, and the settings. More than 1 is better.

  tune.py HAYATE MODEL... [--goals ttft throughput memory] [--minutes 3] [--quality-loss 1%] [--out bench/results/tune.json]

The searches use a cache folder of their own: what the user has tuned stays."""
import argparse
import json
import os
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def one(a, model, goal, cache):
    command = [a.hayate, "tune", model, "--goal", goal, "--minutes", str(a.minutes), "--fresh", "--json"]
    if a.quality_loss:
        command += ["--quality-loss", a.quality_loss]
    r = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ, HAYATE_CACHE=cache))
    if r.returncode:
        raise SystemExit("%s, %s: status %d" % (model, goal, r.returncode))
    return json.loads(r.stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("hayate")
    p.add_argument("models", nargs="+")
    p.add_argument("--goals", nargs="+", default=["ttft", "throughput", "memory"])
    p.add_argument("--minutes", type=float, default=3)
    p.add_argument("--quality-loss")
    p.add_argument("--out", default=os.path.join(HERE, "results", "tune.json"))
    a = p.parse_args()
    cache, reports = tempfile.mkdtemp(), []
    print("%-36s %-11s %10s %10s %-9s %6s  %s" % ("model", "goal", "defaults", "tuned", "", "ratio", "settings"))
    for model in a.models:
        for goal in a.goals:
            o = one(a, model, goal, cache)
            reports.append(o)
            chosen = ["%s=%s" % (s["name"], s["choice"]) for s in o["settings"] if s["choice"] != s["default"]]
            print("%-36s %-11s %10.2f %10.2f %-9s %6.2f  %s" % (o["model"]["file"], goal, o["default"]["value"], o["tuned"]["value"],
                  o["unit"], o["gain"], " ".join(chosen) or "the defaults"), flush=True)
            with open(a.out, "w", encoding="utf-8") as f:
                json.dump(reports, f, indent=1)
                f.write("\n")


if __name__ == "__main__":
    main()
