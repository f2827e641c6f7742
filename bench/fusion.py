#!/usr/bin/env python3
"""Fusion on and off in one run: the time of a prompt and of a token, and the bytes that both forms move, for SmolLM2, Gemma
and the shape of GPT-2 (LayerNorm - Linear - GELU - Linear).

  fusion.py HAYATE [MODEL...] [--minutes 2.5] [--out bench/results/fusion.json]

Models: names of bench/models.py or files. Each is one `hayate bench MODEL --ablation --only fusion`, which measures both forms in
turns; the shape of GPT-2 is part of the first. tools/guide.py makes the table of docs/techniques.md from the result."""
import argparse
import os
import subprocess
import tempfile

import models
import results
import servers

HERE = os.path.dirname(os.path.abspath(__file__))


def ablation(a, path, minutes):
    with tempfile.TemporaryDirectory() as d:
        base = os.path.join(d, "fusion")
        subprocess.run([a.hayate, "bench", path, "--ablation", "--only", "fusion", "--minutes", "%.3f" % minutes, "--quiet", "--out",
                        base], stdout=subprocess.DEVNULL, check=True)
        return results.load(base + ".json")


def pair(rows, model, baseline):
    """Off and on of one shape, with what is said of them."""
    off, on = [next(r for r in rows if r["baseline"] == baseline and r["setting"] == k) for k in ("off", "on")]
    keep = lambda r: {k: r[k] for k in ("ttft_ms", "itl_ms", "spread", "repeats", "quality", "extra")}
    return {"model": model, "off": keep(off), "on": keep(on)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("hayate")
    p.add_argument("models", nargs="*", default=["smollm2-q4_1", "gemma3-q4_k_m"])
    p.add_argument("--minutes", type=float, default=2.5)
    p.add_argument("--out", default=os.path.join(HERE, "results", "fusion.json"))
    a = p.parse_args()
    out = {"machine": servers.machine(), "load": os.getloadavg()[0], "rows": []}
    share = a.minutes / (len(a.models) + 0.5)  # the shape of GPT-2 is measured beside the first
    for i, name in enumerate(a.models):
        path = models.path_of(name, a.hayate)
        o = ablation(a, path, share * (1.5 if i == 0 else 1))
        out["rows"].append(pair(o["rows"], "%s (%s)" % (o["model"]["file"], o["model"]["weights"]), "best"))
        out.update(isa=o["machine"]["isa"], threads=o["machine"]["threads"], threads_decode=o["machine"]["threads_decode"],
                   hayate=o["hayate"])
        if i == 0:
            gpt2 = pair(o["rows"], "the shape of GPT-2 (q8_0)", "gpt2")
    out["rows"].append(gpt2)
    for r in out["rows"]:
        off, on = r["off"], r["on"]
        x, y = off["extra"], on["extra"]
        less = lambda a, b: 100 * (1 - b / a)
        print("%-44s prompt of %d: %.1f -> %.1f ms (%+.1f %%), token %.2f -> %.2f ms (%+.1f %%); activations %+.1f and %+.1f %%" % (
            r["model"], x["prompt"], off["ttft_ms"], on["ttft_ms"], -less(off["ttft_ms"], on["ttft_ms"]), off["itl_ms"],
            on["itl_ms"], -less(off["itl_ms"], on["itl_ms"]),
            -less(x["prompt_activation_bytes"], y["prompt_activation_bytes"]), -less(x["activation_bytes"], y["activation_bytes"])))
    results.save(a.out, out)


if __name__ == "__main__":
    main()
