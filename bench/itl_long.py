#!/usr/bin/env python3
"""Do answers keep their pace while long prompts arrive?

  itl_long.py HAYATE MODEL [--streams 8] [--prompt 4000] [--every 8] [--seconds 32] [--flags '...'] [--out FILE]

Streams decode all the time; every few seconds a request with a long prompt comes (each a different one). Times between two
events of a stream are taken where they arrive, apart for gaps in which a long prompt was being computed and for others.
Writes JSON: machine facts, percentiles in ms, the long prompts' times to their first token. --report prints a file again."""
import argparse
import json
import os
import random
import selectors
import shlex
import signal
import socket
import sys
import tempfile
import time

import servers

HERE = os.path.dirname(os.path.abspath(__file__))


class Stream:
    """One streamed request; times of its events."""

    def __init__(self, port, ids, n_out):
        self.s = socket.create_connection(("127.0.0.1", port))
        body = json.dumps({"prompt": ids, "max_tokens": n_out, "ignore_eos": True, "temperature": 0, "stream": True}).encode()
        self.began = time.monotonic()
        self.s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.s.setblocking(False)
        self.at, self.ended = [], False

    def read(self):
        data = self.s.recv(1 << 20)
        now = time.monotonic()
        self.at += [now] * data.count(b'"text":')
        if not data or b"[DONE]" in data:
            self.ended = True
            self.s.close()


def percentiles(ms):
    v = sorted(ms)
    at = lambda q: round(v[min(len(v) - 1, int(q * len(v)))], 1)
    return {"n": len(v), "p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "max": round(v[-1], 1)} if v else {"n": 0}


def measure(a, port):
    rnd = random.Random(a.seed)
    ids = lambda n: [rnd.randrange(1000, 40000) for _ in range(n)]
    sel, streams, longs = selectors.DefaultSelector(), [], []

    def begin(n_prompt, n_out, into):
        s = Stream(port, ids(n_prompt), n_out)
        into.append(s)
        sel.register(s.s, selectors.EVENT_READ, s)

    for _ in range(a.streams):
        begin(32, 7000, streams)
    while not all(s.at for s in streams):
        for key, _ in sel.select():
            key.data.read()
    start = time.monotonic()
    next_long = start + 2
    while time.monotonic() < start + a.seconds or any(not s.at for s in longs):
        now = time.monotonic()
        if now >= next_long and now < start + a.seconds - a.every / 2 and all(s.at for s in longs):
            begin(a.prompt, 1, longs)
            next_long = now + a.every
        for key, _ in sel.select(timeout=0.05):
            fd = key.data.s
            before = fd.fileno()
            key.data.read()
            if key.data.ended:
                sel.unregister(before)
                if key.data in streams:
                    raise SystemExit("a stream ended before the measurement: %d tokens" % len(key.data.at))
    during, apart = [], []
    for s in streams:
        for t0, t1 in zip(s.at, s.at[1:]):
            if t1 < start:
                continue
            long = any(t1 > q.began and t0 < q.at[0] for q in longs)
            (during if long else apart).append((t1 - t0) * 1e3)
    for s in streams:
        s.s.close()
    return {"during": percentiles(during), "apart": percentiles(apart), "n_long": len(longs),
            "long_ttft_ms": [round((s.at[0] - s.began) * 1e3) for s in longs]}


def report(data):
    print("%s, %d cores, %s, target %d ms, %d streams, prompts of %d tokens" % (
        data["machine"]["cpu"], data["machine"]["cores"], data["model"], data["itl_target_ms"], data["streams"], data["prompt"]))
    for name in ("during", "apart"):
        r = data["itl_ms"][name]
        print("%-8s %6d gaps   p50 %6.1f   p95 %6.1f   p99 %6.1f   max %6.1f ms" % (
            name, r["n"], r.get("p50", 0), r.get("p95", 0), r.get("p99", 0), r.get("max", 0)))
    print("long prompts' first token after", data["long_ttft_ms"], "ms")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("hayate", nargs="?")
    p.add_argument("model", nargs="?")
    p.add_argument("--streams", type=int, default=8)
    p.add_argument("--prompt", type=int, default=4000)
    p.add_argument("--every", type=float, default=8)
    p.add_argument("--seconds", type=float, default=32)
    p.add_argument("--threads", default="2")
    p.add_argument("--itl-target", type=int, default=100)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--flags", default="")
    p.add_argument("--out", default=os.path.join(HERE, "results", "itl_long.json"))
    p.add_argument("--report", action="store_true")
    a = p.parse_args()
    if a.report:
        with open(a.out) as f:
            return report(json.load(f))
    if not a.model:
        p.error("HAYATE and MODEL are needed")
    command = [a.hayate, "serve", a.model, "--port", "{port}", "--threads", a.threads, "--parallel", str(a.streams + 4), "--ctx", "8192",
               "--itl-target", str(a.itl_target), *shlex.split(a.flags)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the server goes with us
    s = servers.Server(command, a.model, os.path.join(tempfile.mkdtemp(), "server.log"))
    try:
        got = measure(a, s.port)
    finally:
        s.stop()
    data = {"machine": servers.machine(), "model": os.path.basename(a.model), "itl_target_ms": a.itl_target, "streams": a.streams,
            "prompt": a.prompt, "itl_ms": {k: got[k] for k in ("during", "apart")}, "n_long": got["n_long"], "long_ttft_ms": got["long_ttft_ms"]}
    os.makedirs(os.path.dirname(os.path.abspath(a.out)), exist_ok=True)
    with open(a.out, "w") as f:
        json.dump(data, f, indent=1)
        f.write("\n")
    report(data)


if __name__ == "__main__":
    sys.exit(main())
