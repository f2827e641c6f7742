"""Servers under test, for the scripts of this folder: start, wait, load, stop. Standard library only."""
import json
import os
import shlex
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """command: a list or a text, with {port} and {model} in it."""

    def __init__(self, command, model, log):
        self.port = free_port()
        self.url = "http://127.0.0.1:%d" % self.port
        args = [c.format(port=self.port, model=model) for c in (shlex.split(command) if isinstance(command, str) else command)]
        began = time.monotonic()
        with open(log, "ab") as f:
            self.run = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=f, stderr=f, start_new_session=True)
        while not self.ready():
            if self.run.poll() is not None:
                raise SystemExit("%s ended with %d: see %s" % (args[0], self.run.returncode, log))
            if time.monotonic() - began > 300:
                self.stop()
                raise SystemExit("%s does not answer: see %s" % (args[0], log))
            time.sleep(0.02)
        self.start_s = time.monotonic() - began

    def ready(self):
        """Both kinds of servers: /ready where there is one, else /health."""
        for path in ("/ready", "/health"):
            try:
                with urllib.request.urlopen(self.url + path, timeout=2) as r:
                    return r.status == 200
            except urllib.error.HTTPError as e:
                if e.code != 404:
                    return False
            except OSError:
                return False
        return False

    def json(self, path):
        with urllib.request.urlopen(self.url + path, timeout=30) as r:
            return json.load(r)

    def peak_mib(self):
        with open("/proc/%d/status" % self.run.pid) as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024

    def stop(self):
        if self.run.poll() is None:
            os.killpg(self.run.pid, signal.SIGTERM)
            try:
                self.run.wait(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(self.run.pid, signal.SIGKILL)
                self.run.wait()


def post(url, path, body):
    """A request's answer, however long it takes."""
    r = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(r, timeout=3600) as f:
        return json.load(f)


def load(hayate, url, *flags):
    """One run of `hayate bench serve`: its report."""
    r = subprocess.run([hayate, "bench", "serve", url, "--json", "--quiet", *map(str, flags)], capture_output=True, text=True)
    if r.returncode:
        raise SystemExit("the load failed: " + r.stderr + r.stdout[:500])
    return json.loads(r.stdout)


def machine():
    facts = {"time": time.strftime("%Y-%m-%d"), "cores": len(os.sched_getaffinity(0))}
    with open("/proc/cpuinfo") as f:
        for line in f:
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                facts["cpu"] = value.strip()
            if key.strip() == "flags":
                flags = value.split()
                facts["isa"] = [x for x in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8") if x in flags]
                break
    return facts
