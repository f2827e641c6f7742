#!/usr/bin/env python3
"""Writes the tables of docs/techniques.md from the committed ablations (bench/results/ablation-*.json, made by
`hayate bench MODEL --ablation --out bench/results/ablation-NAME`).

  tools/techniques.py           writes what stands between the markers
  tools/techniques.py --check   exit status 1 when text and results disagree
"""
import glob
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tables  # noqa: E402
from tables import short, table  # noqa: E402

TITLES = {"kv_cache": "KV cache", "attention": "FlashAttention", "fusion": "Fusion", "weights": "Weight types",
          "activations": "INT8 activations", "kv_type": "KV types", "paged": "Paged KV memory", "prefix_cache": "Prefix cache",
          "chunked_prefill": "Chunked prefill", "batching": "Continuous batching", "speculation": "Speculation",
          "threads": "Threads", "huge_pages": "Huge pages"}
WHAT = {"ttft": "first token", "itl": "per token", "tokens_s": "throughput", "memory": "memory", "sequences": "sequences at once",
        "gap": "worst gap"}


def quality(row):
    q = row["quality"]
    if q["same_bits"] is not None:
        return "none: same bits" if q["same_bits"] else "OTHER BITS"
    if q["ppl_delta_pct"] is None:
        return ""
    ppl = q["ppl_delta_pct"]
    return "%+.2f %%, KL %.1g" % (ppl if abs(ppl) >= 0.005 else 0, q["kl"])


def gain(row):
    g = row["gain"]
    return "%s × %s" % (short(g["ratio"]), WHAT.get(g["what"], g["what"])) if g else ""


def about_setting(row):
    x, on = row["extra"], row["baseline"]
    said = row["setting"]
    more = []
    if on != "best":
        more.append("everything else off" if on == "plain" else "GPT-2's shape")
    if "n" in x:
        more.append("%d tokens" % x["n"])
    if "used_pct" in x and x["used_pct"] is not None:
        more.append("%.0f %% of the memory in use holds tokens" % x["used_pct"])
    if x.get("sequences") is not None:
        more.append("%s at once" % short(x["sequences"]))
    if x.get("worst_gap_ms") is not None:
        more.append("worst gap %s ms" % short(x["worst_gap_ms"]))
    if x.get("acceptance") is not None:
        more.append("%.0f %% accepted" % (100 * x["acceptance"]))
    return said + (" (%s)" % ", ".join(more) if more else "")


def machine(d):
    m = d["machine"]
    return ("%s, %s, on %s: %d cores, %.0f GiB, kernels %s, %d threads for prompts and %d for decoding; %s; load %s before and "
            "%s after. hayate %s, %.0f s in all, prompts of %d tokens unless a row says else.\n\n"
            "- best: %s\n- plain: %s\n- quality is against %s\n%s\n" %
            (d["model"]["file"], d["time"][:10], m["model"], m["cores_allowed"], m["memory_bytes"] / 2.0 ** 30, m["isa"],
             m["threads"], m["threads_decode"], m["kernel"], short(m["load_before"]), short(m["load_after"]), d["hayate"],
             d["seconds"], d["settings"]["prompt"], d["settings"]["best"], d["settings"]["plain"], d["settings"]["reference"],
             "".join("- note: %s\n" % n for n in d["settings"]["notes"])))


def techniques(d):
    """Of each technique its rows, in the order of the run."""
    of = {}
    for row in d["rows"]:
        of.setdefault(row["technique"], []).append(row)
    return of


def best_rows(rows):
    """The rows that stand for the technique in the first table, on the best of the rest: all types, proposers and counts; of
    speculation each proposer's best and worst task."""
    mine = [r for r in rows if r["baseline"] == "best" and r["gain"]]
    if rows[0]["technique"] != "speculation":
        return mine
    shown = []
    for who in dict.fromkeys(r["extra"]["who"] for r in mine):
        of = sorted((r for r in mine if r["extra"]["who"] == who), key=lambda r: -r["gain"]["ratio"])
        shown += of[:1] + of[-1:] if len(of) > 1 else of
    return shown


def selection(d):
    out = []
    for name, rows in techniques(d).items():
        top = best_rows(rows)
        plain = [r for r in rows if r["baseline"] == "plain" and r["gain"]]
        lost = list(dict.fromkeys(("%s: " % r["setting"] if len(top) > 1 and r["quality"]["same_bits"] is None else "") + quality(r)
                                  for r in top if quality(r)))
        out.append(["**%s**" % TITLES.get(name, name), "; ".join("%s: %s" % (about_setting(r), gain(r)) for r in top) or "–",
                    "; ".join("%s: %s" % (r["setting"], gain(r)) for r in plain), "; ".join(lost),
                    rows[0]["when"], rows[0]["when_not"]])
    return table(["technique", "gain, all else on", "gain, all else off", "quality lost", "use it when", "not when"], out)


def measured(d):
    out = []
    for name, rows in techniques(d).items():
        for r in rows:
            def spread(key, r=r):
                s = r["spread"][key]
                return short(r[key]) + (" (%s … %s)" % (short(s[0]), short(s[1])) if s and s[0] != s[1] else "")
            out.append([TITLES.get(name, name), about_setting(r), spread("ttft_ms"), spread("itl_ms"), spread("tokens_s"),
                        short(r["memory_mib"]), quality(r), gain(r)])
    return table(["technique", "setting", "first token, ms", "each token, ms", "tokens/s", "MiB", "quality lost", "gain"], out)


def claims(d):
    return table(["said of", "said", "measured here", "holds", "what was measured"],
                 [[c["claim"], c["said"], c["measured"], "yes" if c["holds"] else "**not here**", c["about"]] for c in d["claims"]])


def curve(d, name, keys, head):
    return table(head, [[p[k] if isinstance(p[k], str) else short(p[k]) if k not in ("n", "streams", "threads") else p[k]
                         for k in keys] for p in d["curves"].get(name, [])])


def one(path):
    d = tables.load(path)
    parts = [
        ("Which technique", selection(d)),
        ("What is said of them, and what was measured", claims(d)),
        ("Step by step from the plain baseline", curve(
            d, "ladder", ["step", "ttft_ms", "itl_ms", "tokens_s"], ["with all before", "first token, ms", "each token, ms", "tokens/s"])),
        ("KV cache: one more token behind so many", curve(
            d, "kv_cache", ["n", "off_ms", "on_ms", "ratio", "answer_off_ms", "answer_on_ms", "answer_ratio"],
            ["tokens before", "computed again, ms", "cached, ms", "times", "whole answer without, ms", "with, ms", "times"])),
        ("FlashAttention against scores in memory", curve(
            d, "attention", ["n", "materialised_ms", "flash_ms", "ratio", "materialised_mib", "flash_mib"],
            ["prompt", "materialised, ms", "flash, ms", "times", "materialised, MiB", "flash, MiB"])),
        ("Continuous batching", curve(
            d, "streams", ["streams", "tokens_s", "itl_ms", "ttft_ms"],
            ["answers at once", "tokens/s of all", "each token, ms", "first token, ms"])),
        ("Threads", curve(d, "threads", ["threads", "prefill_tokens_s", "decode_tokens_s"],
                          ["threads", "prompt, tokens/s", "decoding, tokens/s"])),
        ("Every number", measured(d))]
    # a run of some techniques alone (--only) has no curves of the others
    return "## %s\n\n%s" % (os.path.basename(path)[len("ablation-"):-len(".json")], machine(d)) + "".join(
        "### %s\n\n%s" % part for part in parts if part[1])


def generated():
    paths = sorted(glob.glob(os.path.join(tables.RESULTS, "ablation-*.json")))
    if not paths:
        return "No ablation is kept yet: `hayate bench MODEL --ablation --out bench/results/ablation-NAME` makes one.\n"
    return "".join(one(p) for p in paths).rstrip("\n") + "\n"


def main():
    if tables.put("techniques.md", "tools/techniques.py", generated(), sys.argv[1:] == ["--check"]):
        return 0
    print("docs/techniques.md does not say what bench/results/ablation-*.json hold: run tools/techniques.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
