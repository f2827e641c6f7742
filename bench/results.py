"""Result files (bench/results/*.json) and what follows from them: medians, the share of the roofline, ratios."""
import glob
import json
import os
import statistics

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "results")
# one:...: the same with one thread; packed_ms: warm, from a packed cache, beside what peers need without one
SHOWN = ["pp128", "pp512", "pp2048", "tg@0", "tg@512", "tg@4096", "one:pp512", "one:tg@0", "b1", "b2", "b4", "b5", "b8", "b16",
         "b32", "warm_ms", "packed_ms", "cold_ms", "rss_mib"]
LESS_IS_BETTER = ("warm_ms", "packed_ms", "cold_ms", "rss_mib")


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def save(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    tmp = "%s.%d" % (path, os.getpid())
    with open(tmp, "w", encoding="utf-8") as f:
        json.dump(data, f, indent=1, sort_keys=True)
        f.write("\n")
    os.replace(tmp, path)


def committed():
    """What bench/vs-peers wrote: other benches keep their files in the same folder."""
    return [path for path in sorted(glob.glob(os.path.join(FOLDER, "*.json"))) if "cells" in load(path)]


def cell(data, model, engine, name):
    return data["cells"].get("%s|%s|%s" % (model, engine, name))


def median(values):
    return statistics.median(values) if values else None


def limits(data, one=False):
    """Bytes a second of memory and 8-bit and float operations a second, of the kernels in use, with all threads or one."""
    lim, isa = data["limits"], data["machine"]["isa"]
    level = next(x for x in lim["operations"] if x["isa"] == isa)
    if one:
        return lim["read"][0]["memory"], level["int8_one"], level["f32_one"]
    return lim["read"][-1]["memory"], level["int8_all"], level["f32_all"]


def most(a, b):
    """Of two measurements of a machine's limits, the higher of each: speeds are in numbers a second, but for the barrier."""
    def rows(x, y):
        return {k: v if not isinstance(v, (int, float)) else min(v, y[k]) if k == "barrier_ns" else max(v, y[k]) for k, v in x.items()}
    return dict(b, read=[rows(x, y) for x, y in zip(a["read"], b["read"])],
                operations=[rows(x, y) for x, y in zip(a["operations"], b["operations"])])


def kv_bytes(m, depth):
    """Keys and values, in 16 bits, that a token behind `depth` others reads."""
    each = m["kv_heads"] * m["d_head"] * 2 * 2
    full = m["layers"] // m["window_every"] if m["window"] else m["layers"]
    return each * (full * depth + (m["layers"] - full) * min(depth, m["window"] or depth))


def best(data, model, name):
    """Tokens a second that the measured limits allow; None where there is no such limit."""
    m = data["models"][model]
    bw, int8, f32 = limits(data, name.startswith("one:"))
    name = name.removeprefix("one:")
    ops = f32 if m["floats"] else int8
    if name.startswith("pp"):
        n = int(name[2:])
        pairs = n * (n + 1) / 2 * m["layers"] * m["heads"] * 4 * m["d_head"]
        if m["window"] and n > m["window"]:
            pairs *= 0.5 + 0.5 * m["window"] / n  # about: most layers see the window alone
        return n / ((2.0 * m["weights"] * n + 2.0 * m["weights_last"]) / ops + pairs / f32)
    if name.startswith("tg@") or name.startswith("b"):
        rows = 1 if name[0] == "t" else int(name[1:])
        depth = int(name[3:]) if name[0] == "t" else 24
        t_mem = (m["token_bytes"] + rows * kv_bytes(m, depth)) / bw
        t_ops = rows * 2.0 * (m["weights"] + m["weights_last"]) / ops
        return rows / max(t_mem, t_ops)
    return None


def ratio(data, model, name, ours="hayate"):
    """How many times better we are than the best peer, and which that is; None where nobody else was measured."""
    mine = median(cell(data, model, ours, name))
    theirs = "warm_ms" if name == "packed_ms" else name
    others = [(median(cell(data, model, e, theirs)), e) for e in data["engines"] if e != ours and cell(data, model, e, theirs)]
    if not mine or not others:
        return None
    less = name in LESS_IS_BETTER
    peer, who = (min if less else max)(others)
    return (peer / mine if less else mine / peer), who


def unit(name):
    return "MiB" if name == "rss_mib" else "ms" if name in LESS_IS_BETTER else "tokens/s"


def title(name):
    if name.startswith("one:"):
        return title(name[4:]) + ", one thread"
    if name.startswith("pp"):
        return "prefill of " + name[2:]
    if name.startswith("tg@"):
        return "decode" if name == "tg@0" else "decode behind " + name[3:]
    if name.startswith("b"):
        return "decode, %s row%s together" % (name[1:], "" if name == "b1" else "s")
    return {"warm_ms": "start to first token, warm", "packed_ms": "the same with --packed-cache",
            "cold_ms": "start to first token, cold", "rss_mib": "peak memory"}[name]
