#!/usr/bin/env python3
"""What the clocks of `hayate profile` cost, on and off: bench_overhead with each model.

  overhead.py HAYATE [MODEL...] [--seconds 50] [--out bench/results/overhead.json]

Models: names of bench/models.py or files; without any SmolLM2 (the worst case: its operators are the shortest) and a
Llama of 1.2 B. bench_overhead is built beside HAYATE: `cmake --build BUILD --target bench_overhead`. tools/guide.py
makes what docs/monitoring.md says from the result."""
import argparse
import json
import os
import subprocess
import sys

import models
import results
import servers

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("hayate")
    p.add_argument("models", nargs="*", default=["smollm2-q4_1", "llama1b-q4_0"])
    p.add_argument("--seconds", type=float, default=50)
    p.add_argument("--out", default=os.path.join(HERE, "results", "overhead.json"))
    a = p.parse_args()
    exe = os.path.join(os.path.dirname(os.path.abspath(a.hayate)), "tests", "bench_overhead")
    if not os.access(exe, os.X_OK):
        sys.exit("there is no %s: cmake --build %s --target bench_overhead" % (exe, os.path.dirname(os.path.dirname(exe))))
    out = {"machine": servers.machine(), "load": os.getloadavg()[0], "seconds": a.seconds, "rows": []}
    for name in a.models:
        path = models.path_of(name, a.hayate)
        text = subprocess.run([exe, path, str(a.seconds)], stdout=subprocess.PIPE, text=True, check=True).stdout
        for row in map(json.loads, text.splitlines()):
            out["rows"].append(dict(row, model=os.path.basename(path)))
            print("%-36s %-8s %9.1f us; more: off %+.2f %%, on %+.2f %%, trace %+.2f %% (the same again: %+.2f %%)" % (
                os.path.basename(path), row["phase"], row["never_us"], row["off"]["more_pct"], row["on"]["more_pct"],
                row["trace"]["more_pct"], row["again"]["more_pct"]), flush=True)
    results.save(a.out, out)


if __name__ == "__main__":
    main()
