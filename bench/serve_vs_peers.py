#!/usr/bin/env python3
"""Our server beside others, same model file, same load, same run, interleaved.

  serve_vs_peers.py HAYATE MODEL --peer NAME 'COMMAND with {model} {port}' [--peer ...] [--rounds 3] [--quick]

For each round, each load and each server in turn: start, load, stop. Loads: 1, 4, 16, 32 closed-loop streams (prompt 256,
answer 64), Poisson arrivals at 70 % of the first peer's own rate with 16 streams (so that nobody is overrun), and 16 streams with a shared beginning of 512 tokens. Writes
bench/results/serve.json (machine facts, every run), prints medians and ratios. --report prints the committed file again."""
import argparse
import json
import os
import statistics
import sys
import tempfile

import servers

HERE = os.path.dirname(os.path.abspath(__file__))
STREAMS = (1, 4, 16, 32)


def median(runs, *path):
    def at(r):
        for k in path:
            r = r[k]
        return r
    return statistics.median(at(r) for r in runs)


def loads(a, commands, data):
    for n in STREAMS:
        yield "%d streams" % n, ["--streams", n, "--requests", max(8, n * (2 if a.quick else 4))]
    yield "16 streams, shared 512", ["--streams", 16, "--requests", 32 if a.quick else 64, "--shared-prefix", 512]
    of = list(commands)[min(1, len(commands) - 1)]
    rate = 0.7 * median(data["runs"]["16 streams"][of], "request_rps")
    yield "Poisson, 70 %% of %s" % of, ["--rate", "%.3f" % rate, "--requests", 32 if a.quick else 96]


def run_one(a, name, command, flags, log):
    s = servers.Server(command, a.model, log)
    try:
        out = servers.load(a.hayate, s.url, "--prompt-tokens", 256, "--output-tokens", 64, *flags)
        out.update(peak_mib=s.peak_mib(), start_s=s.start_s, model=os.path.basename(a.model))
        return out
    finally:
        s.stop()


def report(data):
    names = list(data["servers"])
    print("%s, %d cores, %s, medians\n" % (data["machine"]["cpu"], data["machine"]["cores"], data["model"]))
    print("%-28s %-14s %4s %10s %12s %12s %12s %12s" % ("load", "server", "runs", "tokens/s", "ttft p50 ms", "ttft p95 ms", "itl p50 ms", "itl p95 ms"))
    for load_name, by in data["runs"].items():
        for name in (n for n in names if n in by):
            runs = by[name]
            print("%-28s %-14s %4d %10.1f %12.0f %12.0f %12.1f %12.1f" % (
                load_name, name, len(runs), median(runs, "output_tps"), median(runs, "ttft_ms", "p50"), median(runs, "ttft_ms", "p95"),
                median(runs, "itl_ms", "p50"), median(runs, "itl_ms", "p95")))
        for name in (n for n in names[1:] if n in by):
            print("%-28s ours / %-12s %9.2fx %11.2fx %11.2fx" % (
                "", name, median(by[names[0]], "output_tps") / median(by[name], "output_tps"),
                median(by[names[0]], "ttft_ms", "p50") / median(by[name], "ttft_ms", "p50"),
                median(by[names[0]], "ttft_ms", "p95") / median(by[name], "ttft_ms", "p95")))


def write(path, data):
    """After every run, so that a broken one leaves what was measured."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".part", "w") as f:
        json.dump(data, f, indent=1)
        f.write("\n")
    os.replace(path + ".part", path)


def markdown(data):
    """The table of docs/measured.md."""
    print("| load | server | runs | output tokens/s | first token p50, p95 (ms) | between tokens p50, p95 (ms) | ratios to ours |\n"
          "| --- | --- | --- | --- | --- | --- | --- |")
    for load_name, by in data["runs"].items():
        ours = by["hayate"]
        for name, runs in by.items():
            m = {k: median(runs, *k.split()) for k in ("output_tps", "ttft_ms p50", "ttft_ms p95", "itl_ms p50", "itl_ms p95")}
            ratios = "" if runs is ours else "%.2f × the throughput, %.2f × the p95 to the first token" % (
                median(ours, "output_tps") / m["output_tps"], median(ours, "ttft_ms", "p95") / m["ttft_ms p95"])
            print("| %s | %s | %d | %.1f | %.0f, %.0f | %.1f, %.1f | %s |" % (
                load_name, name, len(runs), m["output_tps"], m["ttft_ms p50"], m["ttft_ms p95"], m["itl_ms p50"], m["itl_ms p95"], ratios))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("hayate", nargs="?")
    p.add_argument("model", nargs="?")
    p.add_argument("--peer", nargs=2, action="append", default=[], metavar=("NAME", "COMMAND"))
    p.add_argument("--threads", default="2")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--out", default=os.path.join(HERE, "results", "serve.json"))
    p.add_argument("--report", action="store_true")
    p.add_argument("--markdown", action="store_true", help="the committed file as the table of docs/measured.md")
    a = p.parse_args()
    if a.report or a.markdown:
        with open(a.out) as f:
            return (markdown if a.markdown else report)(json.load(f))
    ours = "%s serve {model} --port {port} --threads %s --parallel 32 --ctx 1024 --kv-tokens 32768" % (a.hayate, a.threads)
    commands = {"hayate": ours, **{n: c for n, c in a.peer}}
    data = {"machine": servers.machine(), "model": os.path.basename(a.model), "rounds": a.rounds, "runs": {}, "failed": [],
            "servers": {n: os.path.basename(c.split()[0]) + c[len(c.split()[0]):] for n, c in commands.items()}}
    log = os.path.join(tempfile.mkdtemp(), "servers.log")
    for i in range(a.rounds):
        for load_name, flags in loads(a, commands, data):
            for name, command in commands.items():
                try:
                    r = run_one(a, name, command, [*flags, "--seed", 100 + i], log)
                except SystemExit as e:
                    if name == "hayate":
                        raise
                    print("round %d, %s, %s: %s" % (i + 1, load_name, name, e), file=sys.stderr)
                    data["failed"].append([load_name, name, str(e)])
                    continue
                data["runs"].setdefault(load_name, {}).setdefault(name, []).append(r)
                write(a.out, data)
                print("round %d, %s, %s: %.1f tokens/s, ttft p50 %.0f ms" % (i + 1, load_name, name, r["output_tps"], r["ttft_ms"]["p50"]),
                      file=sys.stderr)
    report(data)


if __name__ == "__main__":
    main()
