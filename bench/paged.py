#!/usr/bin/env python3
"""PagedAttention's claim, measured: what share of the KV memory in use holds tokens, reserved as a whole against in
pages, and how many sequences run at once in the same memory.

  paged.py HAYATE MODEL [--ctx 2048] [--kv-tokens 16384] [--requests 160] [--out bench/results/paged.json]

The load is a mixture as people send it (log-normal lengths, seed fixed: `hayate bench serve --mixture`), with more
requests waiting than fit. Both servers have the same number of tokens of KV memory."""
import argparse
import json
import os
import statistics
import tempfile
import threading
import time

import servers

HERE = os.path.dirname(os.path.abspath(__file__))


def measure(a, mode):
    log = os.path.join(tempfile.mkdtemp(), "server.log")
    s = servers.Server("%s serve {model} --port {port} --parallel 64 --ctx %d --kv-tokens %d --kv %s --no-prefix-cache" %
                       (a.hayate, a.ctx, a.kv_tokens, mode), a.model, log)
    share, running, stop = [], [], threading.Event()

    def watch():
        while not stop.is_set():
            n = s.json("/stats")["number"]
            pages = n["hayate_kv_pages_used"] - n["hayate_kv_pages_cached"]
            if n["vllm:num_requests_waiting"] and pages > 0: # the pool is what limits
                share.append(n["hayate_kv_slots_used"] / (16 * pages))
                running.append(n["vllm:num_requests_running"])
            time.sleep(0.05)
    t = threading.Thread(target=watch)
    t.start()
    try:
        r = servers.load(a.hayate, s.url, "--streams", 96, "--requests", a.requests, "--prompt-tokens", 150, "--output-tokens", 80,
                         "--mixture", "--seed", 7)
    finally:
        stop.set()
        t.join()
        s.stop()
    return {"share": statistics.mean(share), "share_p5": sorted(share)[len(share) // 20], "running_mean": statistics.mean(running),
            "running_max": max(running), "samples": len(share), "output_tps": r["output_tps"], "failed": r["failed"],
            "ttft_p50_ms": r["ttft_ms"]["p50"]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("hayate")
    p.add_argument("model")
    p.add_argument("--ctx", type=int, default=2048)
    p.add_argument("--kv-tokens", type=int, default=16384)
    p.add_argument("--requests", type=int, default=160)
    p.add_argument("--out", default=os.path.join(HERE, "results", "paged.json"))
    a = p.parse_args()
    out = {"machine": servers.machine(), "model": os.path.basename(a.model), "ctx": a.ctx, "kv_tokens": a.kv_tokens}
    for mode in ("contiguous", "paged"):
        out[mode] = measure(a, mode)
        print("%-11s %5.1f %% of the memory in use holds tokens; %.1f sequences at once (at most %d); %.0f tokens/s" % (
            mode, 100 * out[mode]["share"], out[mode]["running_mean"], out[mode]["running_max"], out[mode]["output_tps"]))
    os.makedirs(os.path.dirname(a.out), exist_ok=True)
    with open(a.out, "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
