#!/usr/bin/env python3
"""Writes what the docs say of tune, of fusion and of what profiling costs, from the committed results: bench/results/tune.json
(bench/tune.py), fusion.json (bench/fusion.py), overhead.json (bench/overhead.py).

  tools/guide.py           writes what stands between the markers
  tools/guide.py --check   exit status 1 when text and results disagree
"""
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tables  # noqa: E402
from tables import short, table  # noqa: E402


def result(name):
    path = os.path.join(tables.RESULTS, name + ".json")
    return tables.load(path) if os.path.exists(path) else None


def machine(d):
    m = d["machine"]
    return "%s, %d cores, %s" % (m["cpu"], m["cores"], m["time"])


def percent(v):
    """With its sign; what would round to nothing is nothing."""
    return "%+.1f %%" % v if abs(v) >= 0.05 else "0.0 %"


# ---- tune ---------------------------------------------------------------------------------------------------------

def bounds(r):
    return "%.3f (%.3f to %.3f)" % (r["median"], r["low"], r["high"])


def half_core(h):
    if h is None:
        return ""
    if "skipped" in h:
        return "Half a core: not measured: %s.\n" % h["skipped"]
    taken = {n for goal in h["threads"].values() for n in goal.values()}
    text = "Limited to half a processor by control group (%s; quota %s seen) it takes %s thread%s for prompts and for answers, for every goal.\n" % (
        "a real one" if h["how"] == "real" else "made up in a mount namespace", h["quota"], " or ".join(sorted(taken)),
        "" if taken == {"1"} else "s")
    for test, name in (("pp", "prompts"), ("tg", "answers")):
        s = h["speeds"].get(test)
        if s:
            one, two = statistics.median(s["1"]), statistics.median(s["2"])
            text += "There one thread runs %s at %s tokens/s, two at %s.\n" % (name, short(one), short(two))
    return text


def tune():
    d = result("tune")
    if d is None:
        return "No results are kept yet: `bench/tune.py HAYATE` measures them.\n"
    rows = []
    for r in d["rows"]:
        c = r.get("check")
        chosen = ", ".join("%s %s" % kv for kv in r["settings"].items()) or "the defaults"
        rows.append([r["model"], r["goal"], chosen, "%s %s" % (short(c["defaults"]), r["unit"]) if c else "",
                     "%s %s" % (short(c["tuned"]), r["unit"]) if c else "", bounds(c["ratio"]) if c else "1 (nothing is set)",
                     bounds(c["same"]) if c else "", r["verdict"] if r["verdict"] != "worse" else "**worse**"])
    loads = [r["load"] for r in d["rows"]]
    return "%s; %s; load before the searches: median %.1f, most %.1f.\n\n%s%s" % (
        machine(d), d["hayate"], statistics.median(loads), max(loads),
        table(["model", "goal", "settings found", "defaults", "tuned", "ratio (95 %)", "defaults against themselves", "tuned is"], rows),
        half_core(d.get("half_core")))


# ---- fusion -------------------------------------------------------------------------------------------------------

def more(off, on):
    return percent(100 * (on / off - 1))


def times(r, key):
    off, on = r["off"][key], r["on"][key]
    return "%s → %s ms (%s)" % (short(off), short(on), more(off, on))


def traffic(r, what):
    """what: "" of a token, "prompt_" of a prompt."""
    x, y = r["off"]["extra"], r["on"]["extra"]
    a, b = x[what + "activation_bytes"], y[what + "activation_bytes"]
    w = x[what + "weight_bytes"]
    return "%s → %s MB (%s)" % (short(a / 1e6), short(b / 1e6), more(a, b)), more(a + w, b + w)


def operators(rows):
    """Where the bytes of the prompt's activations are, by operator, before and after."""
    out = []
    for r in rows:
        sides = [r[k]["extra"]["operators"] for k in ("off", "on")]
        whole = r["off"]["extra"]["prompt_activation_bytes"]
        for k, (name, ops) in enumerate(zip(("one by one", "fused"), sides)):
            top = sorted(ops.items(), key=lambda kv: -kv[1]["bytes"])
            out.append([r["model"] if k == 0 else "", name, str(sum(v["number"] for v in ops.values())),
                        ", ".join("%s %.0f %%" % (op, 100 * v["bytes"] / whole) for op, v in top if v["bytes"] >= 0.02 * whole)])
    return out


def fusion():
    d = result("fusion")
    if d is None:
        return "No results are kept yet: `bench/fusion.py HAYATE` measures them.\n"
    rows, moved = [], []
    for r in d["rows"]:
        n = r["off"]["extra"]["prompt"]
        same = r["on"]["quality"]["same_bits"]
        rows.append([r["model"], "%d" % n, times(r, "ttft_ms"), times(r, "itl_ms"), "%d" % min(r["off"]["repeats"], r["on"]["repeats"]),
                     "the same bits" if same else "KL %s" % short(r["on"]["quality"]["kl"])])
        prompt, prompt_all = traffic(r, "prompt_")
        token, token_all = traffic(r, "")
        moved.append([r["model"], prompt, prompt_all, token, token_all])
    return "%s; hayate %s, kernels %s, %d threads for prompts and %d for decoding; load %.1f before.\n\n%s%s%s" % (
        machine(d), d["hayate"], d["isa"], d["threads"], d["threads_decode"], d["load"],
        table(["model", "prompt", "time of the prompt", "time of a token behind it", "repeats", "result"], rows),
        table(["model", "activations of the prompt", "with weights and keys", "activations of a token", "with weights and keys"], moved),
        table(["model", "form", "operators", "activations of the prompt, in percent of those one by one"], operators(d["rows"])))


# ---- what profiling costs -----------------------------------------------------------------------------------------

def side(r, name):
    s = r[name]
    return "%+.2f %% (%+.2f to %+.2f)" % (s["more_pct"], s["low_pct"], s["high_pct"])


def overhead():
    d = result("overhead")
    if d is None:
        return "Not measured yet: `bench/overhead.py HAYATE` does it.\n"
    rows = [[r["model"], "a token" if r["phase"] == "decode" else "a prompt of %d" % r["tokens"], "%s ms" % short(r["never_us"] / 1e3),
             side(r, "off"), side(r, "on"), side(r, "trace"), side(r, "again"), str(r["rounds"])] for r in d["rows"]]
    return "%s; load %.1f before. Wall time against a session whose clocks were never on, all in turns; medians with 95 %% by ranks.\n\n%s" % (
        machine(d), d["load"],
        table(["model", "", "time", "clocks off again", "on", "on, with a trace", "never on, the same again", "rounds"], rows))


PARTS = (("tuning.md", "tools/guide.py tune", tune), ("techniques.md", "tools/guide.py fusion", fusion),
         ("monitoring.md", "tools/guide.py overhead", overhead))


def main():
    check = sys.argv[1:] == ["--check"]
    good = True
    for page, maker, make in PARTS:
        if not tables.put(page, maker, make(), check):
            print("docs/%s does not say what bench/results hold: run tools/guide.py" % page)
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
