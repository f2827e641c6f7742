"""What the end-to-end tests share: running the program under suspicion, and making GGUF files."""
import atexit
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(ROOT, "tests", "data")
LLAMA = os.path.join(DATA, "models", "llama3")
MODEL = os.path.join(LLAMA, "model-bf16.gguf")

# What no user may ever see.
FORBIDDEN = ("Assertion", "AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:", "core dumped", "(null)")


# What the program measured of the machine is kept here: with a home that does not exist, root would make it.
CACHE = tempfile.mkdtemp()
atexit.register(shutil.rmtree, CACHE, True)


LONG = 600  # seconds that any command may take: a machine may stand still, and nothing is asserted about times


def clean_env(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("HAYATE_")}
    env.update(HAYATE_CONFIG="", HAYATE_CACHE=CACHE, HOME="/nonexistent", UBSAN_OPTIONS="halt_on_error=1")
    env.update(more)
    return env


def listens(p):
    """Waits until the process p has a handler for SIGINT, or is over."""
    while p.poll() is None:
        with open("/proc/%d/status" % p.pid, encoding="ascii") as f:
            caught = re.search(r"SigCgt:\s*(\w+)", f.read())
        if caught and int(caught.group(1), 16) >> (signal.SIGINT - 1) & 1:
            break
        time.sleep(0.01)


def long_enough(run, minutes):
    """(minutes, result) of the first run(minutes) of `hayate tune` that had the time to measure anything, else of the last."""
    for m in minutes:
        r = run(m)
        if r.returncode == 0 or "too short" not in r.stderr:
            break
    return m, r


def judge(test, r):
    """r: finished process with returncode and stderr (str)."""
    test.assertGreaterEqual(r.returncode, 0, "ended by signal %d: %s" % (-r.returncode, r.stderr))
    test.assertLess(r.returncode, 128 if r.returncode != 130 else 131, r.stderr)
    for word in FORBIDDEN:
        test.assertNotIn(word, r.stderr)


def run(test, hayate, *args, binary=False, timeout=LONG, env=None, **kw):
    r = subprocess.run([hayate] + [a if isinstance(a, bytes) else str(a) for a in args], capture_output=True, timeout=timeout,
                       env=clean_env(**(env or {})), stdin=None if "input" in kw else subprocess.DEVNULL, **kw)
    r.stderr = r.stderr.decode("utf-8", "replace")
    if not binary:
        r.stdout = r.stdout.decode("utf-8", "replace")
    judge(test, r)
    return r


# ---- GGUF --------------------------------------------------------------------------------------

U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)
FORM = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<B", U64: "<Q",
        I64: "<q", F64: "<d"}


def string(s):
    s = s.encode() if isinstance(s, str) else s
    return struct.pack("<Q", len(s)) + s


def value(kind, v):
    """The bytes of a value; an array is (ARR, (kind, [values]))."""
    if kind == STR:
        return string(v)
    if kind == ARR:
        return struct.pack("<IQ", v[0], len(v[1])) + b"".join(value(v[0], x) for x in v[1])
    return struct.pack(FORM[kind], v)


def skip(data, at, kind):
    if kind == STR:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind != ARR:
        return at + struct.calcsize(FORM[kind])
    inner, n = struct.unpack_from("<IQ", data, at)
    at += 12
    for _ in range(n):
        at = skip(data, at, inner)
    return at


class Gguf:
    """A file taken apart: keys as (kind, bytes), tensors as [dims, type, offset]; write() puts it together."""

    def __init__(self, path=None):
        self.meta, self.tensors, self.data, self.alignment = {}, {}, b"", 32
        if path:
            with open(path, "rb") as f:
                self.read(f.read())

    def text(self, raw, at):
        n = struct.unpack_from("<Q", raw, at)[0]
        return raw[at + 8:at + 8 + n].decode(), at + 8 + n

    def read(self, raw):
        n_tensor, n_meta = struct.unpack_from("<QQ", raw, 8)
        at = 24
        for _ in range(n_meta):
            key, at = self.text(raw, at)
            kind = struct.unpack_from("<I", raw, at)[0]
            end = skip(raw, at + 4, kind)
            self.meta[key] = (kind, raw[at + 4:end])
            at = end
        for _ in range(n_tensor):
            name, at = self.text(raw, at)
            n = struct.unpack_from("<I", raw, at)[0]
            dims = list(struct.unpack_from("<%dQ" % n, raw, at + 4))
            kind, offset = struct.unpack_from("<IQ", raw, at + 4 + 8 * n)
            self.tensors[name] = [dims, kind, offset]
            at += 16 + 8 * n
        self.data = raw[-(-at // 32) * 32:]

    def set(self, key, kind, v):
        self.meta[key] = (kind, value(kind, v))
        return self

    def write(self, path):
        out = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.meta))
        for key, (kind, raw) in self.meta.items():
            out += string(key) + struct.pack("<I", kind) + raw
        for name, (dims, kind, offset) in self.tensors.items():
            out += string(name) + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, kind, offset)
        out += bytes(-len(out) % self.alignment) + self.data
        with open(path, "wb") as f:
            f.write(out)
        return path
