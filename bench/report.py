#!/usr/bin/env python3
"""Writes the tables of docs/performance.md and docs/speculation.md from the committed results (bench/results/*.json).

  bench/report.py           writes what stands between the markers
  bench/report.py --check   exit status 1 when text and results disagree
"""
import os
import sys

import results as res
import spec_report

sys.path.insert(0, os.path.join(os.path.dirname(res.HERE), "tools"))
import tables  # noqa: E402

NOTES = os.path.join(res.HERE, "notes.json")
GROUPS = [("Prefill and decode, tokens a second", [n for n in res.SHOWN if n[0] == "p" or n.startswith("tg")]),
          ("Several sequences together, tokens a second of all", [n for n in res.SHOWN if n[0] == "b"]),
          ("Start and memory", list(res.LESS_IS_BETTER))]


def short(v):
    return "%.0f" % v if v >= 100 else "%.1f" % v


def value(values):
    """Median, and the least and the most where there are several."""
    m = res.median(values)
    return short(m) if len(values) < 2 else "%s (%s–%s)" % (short(m), short(min(values)), short(max(values)))


def machine(data):
    m, lim = data["machine"], data["limits"]
    last, level = lim["read"][-1], next(x for x in lim["operations"] if x["isa"] == m["isa"])
    gib = 2.0 ** 30
    return ("%s, %s: %d processors allowed on %d cores, %.1f GiB, kernels %s, %d threads; Linux %s. Measured limits with all "
            "threads: memory %.1f GB/s, last cache %.1f GB/s, int8 %.0f and float %.0f billion operations a second. Load "
            "before the turns: median %.1f, most %.1f. hayate %s (commit %s)%s.\n\n" %
            (m["date"], m["model"], m["processors_allowed"], m["cores_allowed"], m["memory_bytes"] / gib, m["isa"],
             data["threads"], m["kernel"], last["memory"] / 1e9, last["l3"] / 1e9, level["int8_all"] / 1e9,
             level["f32_all"] / 1e9, res.median(data["loads"]), max(data["loads"]), data["engines"]["hayate"]["version"],
             data["commit"], "".join("; %s %s" % (e, v["version"]) for e, v in sorted(data["engines"].items()) if e != "hayate")))


def table(data, names):
    peers = [e for e in sorted(data["engines"], key=lambda e: (e != "llama", e)) if e != "hayate"]
    rows = []
    for model in data["models"]:
        for name in names:
            mine = res.cell(data, model, "hayate", name)
            if not mine:
                continue
            top, them = res.best(data, model, name), res.ratio(data, model, name)
            cells = [model, res.title(name), value(mine), "%.0f %%" % (100 * res.median(mine) / top) if top else ""]
            for p in peers:
                v = res.cell(data, model, p, name)
                share = " · %.0f %%" % (100 * res.median(v) / top) if v and top else ""
                cells.append(value(v) + share if v else "")
            cells.append("**%.2f**" % them[0] if them and them[0] < 1 else "%.2f" % them[0] if them else "")
            rows.append("| " + " | ".join(cells) + " |")
    if not rows:
        return ""
    head = ["model", "shape", "hayate", "of limit"] + [p + (" · of limit" if names[0][0] in "pb" else "") for p in peers] + \
        ["ratio to the best peer"]
    return "| " + " | ".join(head) + " |\n|" + " --- |" * len(head) + "\n" + "\n".join(rows) + "\n\n"


def behind(data, notes, machine_name):
    """Every shape where a peer is ahead, with the reason from notes.json: of this machine, or of all."""
    lines = []
    for model in data["models"]:
        for name in res.SHOWN:
            them = res.ratio(data, model, name)
            if not them or them[0] >= 0.995:
                continue
            keys = ["%s|%s" % (model, name), "%s|" % model, "|%s" % name]
            why = next((notes[k] for k in [machine_name + "|" + k for k in keys] + keys if k in notes), None)
            lines.append("- %s, %s: %.2f of %s. %s" % (model, res.title(name), them[0], them[1], why or "Not explained yet."))
    if not any(res.ratio(data, m, n) for m in data["models"] for n in res.SHOWN):
        return ""
    return "Where hayate is not ahead:\n\n" + ("\n".join(lines) if lines else "- nowhere in these tables") + "\n\n"


def kernels(data):
    rows = data.get("kernels")
    if not rows:
        return ""
    out = ["### Matrix products by themselves\n\nAll threads; GB/s of weights with one row, billions of multiply-adds a second "
           "with many; the share of the limit that is nearer.\n\n| type | activations | 1 row, GB/s | of memory | 4 rows, GB/s | "
           "128 rows, G/s | of arithmetic |\n| --- | --- | --- | --- | --- | --- | --- |\n"]
    for t in dict.fromkeys(r["type"] for r in rows):
        of = {r["rows"]: r for r in rows if r["type"] == t}
        out.append("| %s | %s | %.1f | %.0f %% | %.1f | %.0f | %.0f %% |\n" %
                   (t, of[1]["activations"], of[1]["gbs"], 100 * of[1]["of_memory"], of[4]["gbs"], of[128]["gmacs"],
                    100 * of[128]["of_arithmetic"]))
    return "".join(out) + "\n"


def generated():
    paths = res.committed()
    if not paths:
        return "No results are kept yet: `bench/vs-peers` measures them.\n"
    notes = res.load(NOTES) if os.path.exists(NOTES) else {}
    out = []
    for path in paths:
        data = res.load(path)
        name = os.path.basename(path)[:-len(".json")]
        out.append("## %s\n\n%s" % (name, machine(data)))
        out += ["### %s\n\n%s" % (title, t) for title, names in GROUPS for t in [table(data, names)] if t]
        out += [behind(data, notes, name), kernels(data)]
    return "".join(out).rstrip("\n") + "\n"


def main():
    check = sys.argv[1:] == ["--check"]
    pages = {"performance.md": generated(), "speculation.md": spec_report.generated()}
    wrong = [page for page, text in pages.items() if not tables.put(page, "bench/report.py", text, check)]
    for page in wrong:
        print("docs/%s does not say what bench/results hold: run bench/report.py" % page)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
