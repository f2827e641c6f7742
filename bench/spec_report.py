"""The tables of docs/speculation.md, from bench/results/spec.json (bench/spec.py --suite writes it; bench/report.py puts
them into the text)."""
import os
import statistics

import results as res

DATA = os.path.join(res.FOLDER, "spec.json")
NAMES = {"small": "SmolLM2 135M, Q4_1", "small-bf16": "SmolLM2 135M, BF16", "pad-bf16": "1 B, BF16", "pad-q8_0": "1 B, Q8_0",
         "pad-q4_0": "1 B, Q4_0"}
TASKS = {"chat@1": "chat at temperature 1", "json": "JSON"}
KINDS = ["copy", "edit", "summary", "json", "chat"]


def two(v):
    return "%.2f" % v if v is not None else ""


def facts(data):
    m = data["machine"]
    return ("%s, %s: %d processors, %s. Load before and after: %.1f, %.1f. Commit %s; %.1f minutes. The model of 1 B: %d layers put "
            "into SmolLM2, `--scale %g`.\n\n" % (m["time"], m.get("cpu", "?"), m["cores"], ", ".join(m.get("isa", [])),
                                               data["loads"][0], data["loads"][-1], data["commit"], data["minutes"],
                                               data["pad"]["layers"], data["pad"]["scale"]))


def speeds(data):
    out = ["| model | who drafts | task | streams | without, tokens/s | with | times as fast | accepted | the first | tokens a draft | "
           "by costs |\n|" + " --- |" * 11 + "\n"]
    for r in data["table"]:
        drafts = r["drafted_at"][0] if r["drafted_at"] else 0
        out.append("| %s | %s | %s | %d | %.1f | %.1f | **%.2f** (%.2f–%.2f) | %s | %s | %s | %s |\n" %
                   (NAMES.get(r["model"], r["model"]), r["who"], TASKS.get(r["task"], r["task"]), r["streams"], r["off"], r["on"],
                    r["gain"], r["gain_least"], r["gain_most"], two(r["acceptance"]), two(r["first"]),
                    "%.1f" % (r["drafted"] / drafts) if drafts else "", two(r["by_costs"])))
    return "".join(out) + "\n"


def costs(data):
    """c(rows), and what a step of the drafter costs beside one of the model."""
    rows = [2, 3, 5, 8, 16]
    out = ["| model | who drafts | a step, ms | " + " | ".join("%d rows" % n for n in rows) + " | a step of the drafter |\n|" +
           " --- |" * (len(rows) + 4) + "\n"]
    for key, c in sorted(data["costs"].items(), key=lambda kv: list(NAMES).index(kv[0].split()[0]) if kv[0].split()[0] in NAMES else 99):
        if "model" not in c:
            continue
        name, who = key.split()
        m = c["model"]
        drafter = "%.2f" % (c["drafter"]["ms"] / m["ms"]) if "drafter" in c else ""
        out.append("| %s | %s | %.1f | %s | %s |\n" % (NAMES.get(name, name), who, m["ms"],
                                                     " | ".join(two(m["rows"].get(str(n))) for n in rows), drafter))
    return "".join(out) + "\n"


def replayed(data):
    """The kinds of the given answers: tokens a step, and sums of times."""
    out = ["| given answers | tasks | tokens a step | right | times as fast | the least of them |\n|" + " --- |" * 6 + "\n"]
    for kind in KINDS:
        of = [r for r in data.get("replay", []) if r["kind"] == kind]
        if not of:
            continue
        drafted = sum(r["drafted"] for r in of)
        out.append("| %s | %d | %.1f | %s | **%.2f** | %.2f |\n" %
                   ("JSON" if kind == "json" else kind, len(of), statistics.median(r["tokens"] / r["steps"] for r in of),
                    two(sum(r["accepted"] for r in of) / drafted) if drafted else "",
                    sum(r["off_ms"] for r in of) / sum(r["on_ms"] for r in of), min(r["gain"] for r in of)))
    return "".join(out) + "\n" if len(out) > 1 else ""


def generated():
    if not os.path.exists(DATA):
        return "No results are kept yet: `bench/spec.py --suite` measures them.\n"
    data = res.load(DATA)
    given = replayed(data)
    return (facts(data) + (given and "n-grams on given answers, on the clock of SmolLM2 135M in 4 bits:\n\n" + given) +
            "Served, in turns with and without:\n\n" + speeds(data) + "What rows and drafts cost, as measured at start:\n\n" +
            costs(data)).rstrip("\n") + "\n"
