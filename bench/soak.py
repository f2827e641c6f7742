#!/usr/bin/env python3
"""Hours on a server in minutes: chats, streams that are cut, bad requests, floods, more than the KV pool holds.

  soak.py HAYATE MODEL [--minutes 30] [--threads 12] [--flags "--parallel 16 --kv-tokens 6000"] [--slow 1] [--json FILE]

Watches RSS and how long /health takes, all the time. At the end: no crash, no finding of a sanitizer, no
allocation in a step, every request answered as it should be, the same greedy prompt the same answer throughout
(asked once a second, under all of the load), RSS within 2 % of what it was after the first sixth (release builds),
/health within 50 ms (times --slow for sanitized builds, which are several times slower). Exit status 1 otherwise.
Only Python's standard library."""
import argparse
import http.client
import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

WORDS = "river stone winter garden letter engine silver window market people answer number forest bridge".split()


class Soak:
    def __init__(self, a):
        self.a = a
        self.lock = threading.Lock()
        self.count, self.wrong = {}, []
        self.health, self.rss = [], []
        self.stop = threading.Event()
        self.dir = tempfile.mkdtemp()
        url_file, self.log = os.path.join(self.dir, "url"), os.path.join(self.dir, "log")
        env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:exitcode=99"}
        with open(self.log, "wb") as log:
            self.run = subprocess.Popen([a.hayate, "serve", a.model, "--port", "0", "--port-file", url_file, *shlex.split(a.flags)],
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        while not os.path.exists(url_file) or not open(url_file).read().strip():
            if self.run.poll() is not None:
                sys.exit("the server ended: " + open(self.log, errors="replace").read()[-2000:])
            time.sleep(0.05)
        u = urllib.parse.urlparse(open(url_file).read().strip())
        self.host, self.port = u.hostname, u.port
        while self.ask("GET", "/ready")[0] != 200:
            time.sleep(0.1)

    def ask(self, method, path, body=None, timeout=300):
        c = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            c.request(method, path, data, {"Content-Type": "application/json"})
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    def note(self, what, good=True, detail=""):
        with self.lock:
            self.count[what] = self.count.get(what, 0) + 1
            if not good and len(self.wrong) < 50:
                self.wrong.append("%s: %s" % (what, str(detail)[:300]))

    # ---- what users do ---------------------------------------------------------------------------

    def body(self, rng, stream, most=48):
        text = " ".join(rng.choice(WORDS) for _ in range(rng.choice((5, 20, 60, 200)) // self.a.shorter or 1))
        b = {"messages": [{"role": "system", "content": "You are helper %d. " % rng.randrange(4) * (12 // self.a.shorter or 1)}, {"role": "user", "content": text}],
             "max_tokens": rng.randrange(1, most), "temperature": rng.choice((0, 0.8, 1.3)), "seed": rng.randrange(1 << 30), "stream": stream}
        if rng.random() < 0.15:
            b["n"] = rng.randrange(2, 4)
        if rng.random() < 0.15:
            b.update(logprobs=True, top_logprobs=rng.randrange(0, 6))
        if rng.random() < 0.1:
            b["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "schema": {
                "type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a", "b"],
                "additionalProperties": False}}}
        if rng.random() < 0.1:
            b["priority"] = rng.randrange(-2, 3)
        return b

    def chat(self, rng):
        status, data = self.ask("POST", "/v1/chat/completions", self.body(rng, False))
        good = status in (200, 429) and (status != 200 or json.loads(data)["choices"])
        self.note("chat %d" % status, good, data)

    def stream(self, rng):
        status, data = self.ask("POST", "/v1/chat/completions", self.body(rng, True))
        self.note("stream %d" % status, status == 429 or (status == 200 and data.rstrip().endswith(b"data: [DONE]")), data[-200:])

    def cut(self, rng):
        """Leaves in the middle: of the answer, of the wait, of the request itself."""
        b = json.dumps(self.body(rng, rng.random() < 0.7, 400)).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(b)
        s = socket.create_connection((self.host, self.port), 60)
        try:
            kind = rng.randrange(3)
            s.sendall((head + b)[:rng.randrange(1, len(head) + len(b))] if kind == 0 else head + b)
            if kind == 1:
                s.recv(rng.randrange(1, 2000))
            time.sleep(rng.random() * 0.3)
        except OSError:
            pass
        finally:
            s.close()
        self.note("cut")

    def bad(self, rng):
        body = rng.choice((b"", b"{", b"[]", b"\xff\xfe", b'{"messages": 5}', b'{"messages": []}', b"[" * 50000,
                           json.dumps({"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}).encode(),
                           json.dumps({"messages": [{"role": "user", "content": "x " * 200000}]}).encode(),
                           json.dumps({"messages": [{"role": "user", "content": "x"}], "max_tokens": -5}).encode(),
                           json.dumps({"messages": [{"role": "user", "content": "x"}], "response_format": {
                               "type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "strnig"}}}}).encode()))
        status, data = self.ask("POST", "/v1/chat/completions", body)
        self.note("bad %d" % status, 400 <= status < 500 and json.loads(data)["error"]["message"], data)

    def junk(self, rng):
        s = socket.create_connection((self.host, self.port), 60)
        try:
            s.sendall(bytes(rng.randrange(256) for _ in range(rng.randrange(1, 300))))
            s.settimeout(0.2)
            s.recv(100)
        except OSError:
            pass
        finally:
            s.close()
        self.note("junk")

    def other(self, rng):
        path, body = rng.choice((("/tokenize", {"content": "Hello wörld"}), ("/v1/embeddings", {"input": "Hello there"}),
                                 ("/v1/completions", {"prompt": "Once", "max_tokens": 5}), ("/metrics", None), ("/stats", None),
                                 ("/v1/models", None), ("/", None), ("/v1/messages/count_tokens", {
                                     "model": "x", "messages": [{"role": "user", "content": "Hi"}]})))
        status, data = self.ask("POST" if body else "GET", path, body)
        self.note("other %d" % status, status in (200, 404, 429), data)

    def user(self, i):
        rng = random.Random(self.a.seed * 1000 + i)
        acts = [self.chat] * 5 + [self.stream] * 5 + [self.cut] * 4 + [self.bad] * 2 + [self.other] * 2 + [self.junk]
        while not self.stop.is_set():
            act = rng.choice(acts)
            if self.a.every:  # all at once, then quiet
                self.stop.wait(self.a.every - time.monotonic() % self.a.every)
            try:
                act(rng)
            except (OSError, ValueError, http.client.HTTPException) as e:
                self.note("no answer", self.stop.is_set(), "%s: %r" % (act.__name__, e))
                time.sleep(0.2)

    # ---- what is watched -------------------------------------------------------------------------

    def watch(self, began):
        while not self.stop.is_set():
            t = time.monotonic()
            try:
                status, _ = self.ask("GET", "/health", timeout=60)
                took = time.monotonic() - t
                self.health.append(took)
                self.note("health %d" % status, status == 200)
            except OSError as e:
                self.note("no health", self.stop.is_set(), e)
            with open("/proc/%d/statm" % self.run.pid) as f:
                self.rss.append((time.monotonic() - began, int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")))
            time.sleep(0.25)

    def same(self):
        body = {"messages": [{"role": "user", "content": "Count from one to twenty in words."}], "max_tokens": 24, "temperature": 0}
        first = None
        while not self.stop.is_set():
            try:
                status, data = self.ask("POST", "/v1/chat/completions", body)
            except OSError as e:
                self.note("no answer", self.stop.is_set(), e)
                continue
            if status == 200:
                text = json.loads(data)["choices"][0]["message"]["content"]
                first = first or text
                self.note("same", text == first, (first, text))
            time.sleep(1)

    def go(self):
        began = time.monotonic()
        seconds = self.a.minutes * 60
        threads = [threading.Thread(target=self.user, args=(i,), daemon=True) for i in range(self.a.threads)]
        threads += [threading.Thread(target=self.watch, args=(began,), daemon=True), threading.Thread(target=self.same, daemon=True)]
        for t in threads:
            t.start()
        while time.monotonic() - began < seconds and self.run.poll() is None:
            time.sleep(1)
            if sys.stderr.isatty():
                print("\r\033[K%d of %d s, %d requests, %d wrong, %.0f MiB" % (
                    time.monotonic() - began, seconds, sum(self.count.values()), len(self.wrong), self.rss[-1][1] / 2 ** 20 if self.rss else 0),
                    end="", file=sys.stderr)
        stats = self.last_stats()
        self.stop.set()
        for t in threads:
            t.join(timeout=320)
        return self.report(seconds, stats)

    def last_stats(self):
        try:
            return json.loads(self.ask("GET", "/stats")[1])
        except (OSError, ValueError):
            return {}

    def report(self, seconds, stats):
        alive = self.run.poll() is None
        if alive:
            self.run.send_signal(signal.SIGTERM)
        code = self.run.wait(timeout=120)
        with open(self.log, errors="replace") as f:
            log = f.read()
        settled = [r for t, r in self.rss if t > seconds / 6]
        first = sorted(settled[:max(1, len(settled) // 20)])
        last = sorted(settled[-max(1, len(settled) // 20):])
        growth = last[len(last) // 2] / first[len(first) // 2] - 1 if settled else 0
        health = sorted(self.health) or [0]
        out = {
            "seconds": seconds, "requests": dict(sorted(self.count.items())), "wrong": self.wrong, "exit": code, "alive": alive,
            "sanitizer": any(w in log for w in ("AddressSanitizer", "LeakSanitizer", "runtime error", "ThreadSanitizer")),
            "rss_mib_settled": first[len(first) // 2] / 2 ** 20 if settled else None, "rss_growth": growth,
            "rss_mib_max": max(r for _, r in self.rss) / 2 ** 20,
            "health_ms": {"p50": 1e3 * health[len(health) // 2], "p99": 1e3 * health[int(len(health) * 0.99)], "max": 1e3 * health[-1]},
            "allocations_in_steps": stats.get("number", {}).get("hayate_allocations_in_steps_total"),
            "paused": stats.get("number", {}).get("vllm:num_preemptions_total"),
            "cancelled": stats.get("number", {}).get("hayate_requests_cancelled_total"),
            "tokens_after_cancel": stats.get("number", {}).get("hayate_tokens_after_cancel_total"),
        }
        faults = []
        if not alive or code != 0:
            faults.append("the server ended with %s" % code)
        if out["sanitizer"]:
            faults.append("a sanitizer found something: " + self.log)
        if self.wrong:
            faults.append("%d wrong answers" % len(self.wrong))
        if out["allocations_in_steps"]:
            faults.append("allocations in steps")
        if self.a.slow == 1 and abs(growth) > 0.02:
            faults.append("RSS moved by %.1f %%" % (100 * growth))
        if health[int(len(health) * 0.999)] > 0.05 * self.a.slow:
            faults.append("/health took %.0f ms" % (1e3 * health[int(len(health) * 0.999)]))
        out["faults"] = faults
        return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("hayate")
    p.add_argument("model")
    p.add_argument("--minutes", type=float, default=30)
    p.add_argument("--threads", type=int, default=12)
    p.add_argument("--flags", default="--parallel 16 --ctx 1024 --kv-tokens 6000")
    p.add_argument("--slow", type=float, default=1)
    p.add_argument("--shorter", type=int, default=1, help="prompts are so many times shorter: for tiny models")
    p.add_argument("--every", type=float, default=0, help="users act together every so many seconds, not without end")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--json")
    a = p.parse_args()
    out = Soak(a).go()
    text = json.dumps(out, indent=1)
    if a.json:
        with open(a.json, "w") as f:
            f.write(text + "\n")
    print(text)
    return 1 if out["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
