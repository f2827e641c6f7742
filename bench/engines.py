"""The engines that vs-peers runs: each turn is one process that measures one group of cells.

A cell is a name and a list of values:  pp128 pp512 pp2048  tokens/s of a prompt
                                        tg@0 tg@512 tg@4096 tokens/s of decoding behind so many tokens
                                        b1 ... b32          tokens/s of so many sequences together
                                        one:...             the same with one thread
                                        warm_ms cold_ms     from start to the first byte of text
                                        packed_ms           warm, from a packed cache (ours alone)
                                        rss_mib             most memory, context of 2048
"""
import json
import os
import re
import subprocess
import sys
import time

GEN = 32
BATCHES = (1, 2, 4, 5, 8, 16, 32)
PROMPT = "Once upon a time in a small village there lived an old clockmaker who"


class Failed(Exception):
    pass


def call(args, timeout=900, env=None, both=False):
    """What a command writes to its standard output; both: and to its errors (ik's tables go there)."""
    try:
        r = subprocess.run(args, capture_output=True, text=True, timeout=timeout, env=env, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise Failed("%s: no end after %d s" % (os.path.basename(args[0]), timeout))
    if r.returncode:
        raise Failed("%s: status %d: %s" % (" ".join(args), r.returncode, r.stderr.strip()[-300:]))
    return r.stdout + r.stderr if both else r.stdout


def drop(path):
    """The file's pages leave the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def warm(path):
    with open(path, "rb") as f:
        while f.read(1 << 24):
            pass


def first_byte(args):
    """Milliseconds from the start of a process to its first byte of output."""
    t0 = time.perf_counter()
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as p:
        if not p.stdout.read(1):
            p.wait()
            raise Failed("%s wrote nothing (status %s)" % (" ".join(args), p.returncode))
        ms = (time.perf_counter() - t0) * 1e3
        p.stdout.read()
    return ms


# a small process between: the kernel counts the memory of who starts a program to that program's peak
PEAK = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdin=-3, stdout=-3, stderr=-3).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status != 0)
"""


def peak_mib(args):
    """The most memory that a process ever held, in MiB."""
    return int(call([sys.executable, "-S", "-c", PEAK] + args)) / 1024


class Hayate:
    label = "hayate"

    def __init__(self, exe, threads):
        self.exe, self.threads = exe, threads

    def version(self):
        return call([self.exe, "version"]).split()[-1]

    def bench(self, model, *args, threads=None):
        out = call([self.exe, "bench", model, "-r", "1", "-q", "--json", "-t", str(threads or self.threads)] + [str(a) for a in args])
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    def run(self, group, model):
        if group == "short":
            pp = self.bench(model, "-p", 128, "-n", 0)[0]["tps"]
            rows = self.bench(model, "-p", 512, "-n", GEN)
            return {"pp128": pp, "pp512": rows[0]["tps"], "tg@0": rows[1]["tps"]}
        if group == "one":
            rows = self.bench(model, "-p", 512, "-n", GEN, threads=1)
            return {"one:pp512": rows[0]["tps"], "one:tg@0": rows[1]["tps"]}
        if group == "long":
            return {"pp2048": self.bench(model, "-p", 2048, "-n", 0)[0]["tps"],
                    "tg@512": self.bench(model, "-p", 0, "-n", GEN, "-d", 512)[0]["tps"]}
        if group == "deep":
            return {"tg@4096": self.bench(model, "-p", 0, "-n", GEN, "-d", 4096)[0]["tps"]}
        if group == "batch":
            rows = self.bench(model, "-p", 0, "-n", 16, "-d", 16, "-b", ",".join(map(str, BATCHES)))
            return {"b%d" % r["rows"]: r["tps"] for r in rows}
        args = [self.exe, "run", model, PROMPT, "-n", "1", "--temp", "0", "-q", "-c", "2048", "--parallel", "1", "-t",
                str(self.threads)]
        cells = start(args, model)
        first_byte(args + ["--packed-cache"])  # writes it, if it is not there
        cells["packed_ms"] = [first_byte(args + ["--packed-cache"])]
        return cells


def start(args, model):
    warm(model)
    cells = {"warm_ms": [first_byte(args)], "rss_mib": [peak_mib(args)]}
    drop(model)
    cells["cold_ms"] = [first_byte(args)]
    warm(model)
    return cells


class Llama:
    """llama.cpp, and engines that were made from it: llama-bench and llama-batched-bench."""

    def __init__(self, label, folder, threads, is_ik=False):
        self.label, self.bin, self.threads, self.ik = label, folder, threads, is_ik
        # what its users would switch on: flash attention is on by default in llama.cpp, repacking in both
        self.more = ["-fa", "1", "-rtr", "1"] if is_ik else []
        self.env = dict(os.environ, LD_LIBRARY_PATH=folder)

    def there(self):
        return os.access(os.path.join(self.bin, "llama-bench"), os.X_OK)

    def version(self):
        return getattr(self, "build", "")

    def bench(self, model, *args, threads=None):
        quick = ["-w", "0"] if self.ik else ["--no-warmup"]
        out = call([os.path.join(self.bin, "llama-bench"), "-m", model, "-t", str(threads or self.threads), "-o", "json", "-r", "1"] + quick +
                   self.more + [str(a) for a in args], env=self.env)
        rows = json.loads(out[out.find("["):out.rfind("]") + 1])
        self.build = "%s (%s)" % (rows[0].get("build_commit"), rows[0].get("build_number"))
        return rows

    def decode(self, model, depth):
        args = ["-p", 0, "-n", 0, "-gp", "%d,%d" % (depth, GEN)] if self.ik else ["-p", 0, "-n", GEN, "-d", depth]
        return [r["samples_ts"] for r in self.bench(model, *args) if r["n_gen"] == GEN][0]

    def run(self, group, model):
        if group == "short":  # a prompt of 16 first takes the place of a warm-up
            cells = {}
            for r in self.bench(model, "-p", "16,128,512", "-n", GEN):
                name = "tg@0" if r["n_gen"] else "pp%d" % r["n_prompt"]
                if name != "pp16":
                    cells[name] = r["samples_ts"]
            return cells
        if group == "one":
            rows = self.bench(model, "-p", "16,512", "-n", GEN, threads=1)
            return {"one:tg@0" if r["n_gen"] else "one:pp512": r["samples_ts"] for r in rows if r["n_prompt"] != 16}
        if group == "long":
            pp = [r["samples_ts"] for r in self.bench(model, "-p", "16,2048", "-n", 0) if r["n_prompt"] == 2048][0]
            return {"pp2048": pp, "tg@512": self.decode(model, 512)}
        if group == "deep":
            return {"tg@4096": self.decode(model, 4096)}
        if group == "batch":
            return self.batch(model)
        exe = os.path.join(self.bin, "llama-completion")
        if not os.access(exe, os.X_OK):
            return {}
        return start([exe, "-m", model, "-p", PROMPT, "-n", "1", "--temp", "0", "-c", "2048", "-no-cnv", "--no-display-prompt",
                      "--no-warmup", "-t", str(self.threads)], model)

    def batch(self, model):
        exe = os.path.join(self.bin, "llama-batched-bench")
        # its flash attention stops with an assertion at two sequences; so near the start it hardly matters
        more = ["-no-fa", "-rtr"] if self.ik else []
        out = call([exe, "-m", model, "-t", str(self.threads), "-c", "2048", "-npp", "16", "-ntg", "16", "-npl",
                    ",".join(map(str, BATCHES))] + more, env=self.env, both=True)
        cells = {}
        for line in out.splitlines():
            row = [x.strip() for x in line.strip().strip("|").split("|")]
            if len(row) >= 8 and re.fullmatch(r"\d+", row[0]):
                cells["b" + row[2]] = [float(row[7])]
        if not cells:
            raise Failed("%s: no table in its output" % exe)
        return cells
