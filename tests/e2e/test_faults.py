"""Hostile files, no memory, full disks, interrupts, and chat in a terminal.

usage: test_faults.py HAYATE [TEST...]"""
import json
import os
import pty
import random
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

import common
from common import ARR, BOOL, F32, I32, MODEL, STR, U32, U64, Gguf
from test_cli import Case
import test_cli

HAYATE = None
SANITIZED = False
SMOLLM2 = os.environ.get("HAYATE_SMOLLM2")


class HostileFiles(Case):
    def refused(self, path, *words):
        """By every command that opens a model; not by a signal, and with a message that names things."""
        for args in (["run", path, "hello", "-n", 2], ["info", path], ["tokenize", path, "hello"]):
            r = self.run_it(*args)
            if args[0] == "run":
                self.assertEqual(r.returncode, 1, "%s %s %s" % (path, words, r.stderr))
                for w in words:
                    self.assertIn(str(w), r.stderr)
            self.assertIn(r.returncode, (0, 1))

    def test_not_models(self):
        self.refused(self.path("nowhere"), "nowhere", "No such file")
        self.refused(self.dir.name, self.dir.name)
        self.refused(self.put("empty", b""), "empty")
        self.refused(self.put("four", b"GGUF"), "four")  # L1
        self.refused(self.put("text", "This is not a model.\n" * 100), "text")
        self.refused(self.put("zip", b"PK\x03\x04" + bytes(1000)), "zip")
        self.refused("/dev/zero", "/dev/zero")
        self.refused("", "")
        os.mkfifo(self.path("fifo"))
        self.refused(self.path("fifo"), "fifo")
        os.symlink("loop", self.path("loop"))
        self.refused(self.path("loop"), "loop")
        os.mkdir(self.path("hf"))
        self.put("hf/config.json", "{")
        self.refused(self.path("hf"), "config.json")
        self.put("hf/config.json", '{"model_type":"llama"}')
        self.refused(self.path("hf"), "hf")
        self.put("hf/model.safetensors", b"\xff" * 8)
        self.refused(self.path("hf"), "model.safetensors")

    def test_truncated(self):
        with open(MODEL, "rb") as f:
            raw = f.read()
        rng = random.Random(1)
        for n in sorted({5, 8, 12, 16, 23, 24, 25, 40, len(raw) - 1} | {rng.randrange(24, len(raw)) for _ in range(12)}):
            p = self.put("cut.gguf", raw[:n])
            r = self.run_it("run", p, "hello", "-n", 2)
            self.assertEqual(r.returncode, 1, "%d bytes" % n)
            self.assertIn("cut.gguf", r.stderr)

    def test_changed_bytes(self):
        with open(MODEL, "rb") as f:
            raw = bytearray(f.read())
        rng = random.Random(2)
        head = 12000
        for i in range(40):
            at = rng.randrange(4, head)
            old = raw[at]
            raw[at] = rng.randrange(256)
            r = self.run_it("run", self.put("changed.gguf", bytes(raw)), "hello", "-n", 2, "--ctx", 64)
            self.assertIn(r.returncode, (0, 1), "byte %d: %s" % (at, r.stderr))
            raw[at] = old

    def variant(self, change, *words):
        g = Gguf(MODEL)
        change(g)
        self.refused(g.write(self.path("v.gguf")), *words)

    def test_tensors(self):
        t = "blk.0.attn_q.weight"

        def dims(g): g.tensors[t][0] = [256, 0]
        self.variant(dims, t)  # L3

        for by in (32, 2 ** 63, 2 ** 64 - 2 ** 20 - (1 << 17)):  # L7
            g = Gguf(MODEL)
            d = g.tensors[t][0]
            g.tensors[t][2] = (len(g.data) // 32 * 32 - d[0] * d[1] * 2 + by) % 2 ** 64 // 32 * 32
            self.refused(g.write(self.path("v.gguf")), t)
        g = Gguf(MODEL)
        last = max(g.tensors, key=lambda k: g.tensors[k][2])
        g.data = g.data[:g.tensors[last][2] + 1]
        self.refused(g.write(self.path("v.gguf")), last)

        def huge(g): g.tensors[t][0] = [2 ** 33, 2 ** 33]
        self.variant(huge, t)

        def negative(g): g.tensors[t][0] = [2 ** 64 - 1, 2]
        self.variant(negative, t)

        def kind(g): g.tensors[t][1] = 4000000000
        self.variant(kind, t)

        def missing(g): del g.tensors[t]
        self.variant(missing, t)

        def swap(g): g.tensors["blk.0.ffn_up.weight"][0].reverse()
        self.variant(swap, "blk.0.ffn_up.weight")

        def dim0(g): g.tensors[t][0] = []
        self.variant(dim0, "v.gguf")

    def test_metadata(self):
        def put(key, kind, v):
            return lambda g: g.set(key, kind, v)
        self.variant(put("general.alignment", STR, "32"), "general.alignment")  # L5
        for v in (0, 3, 2 ** 31):
            self.variant(put("general.alignment", U32, v), "general.alignment", v)
        self.variant(put("llama.attention.head_count", U32, 0), "llama.attention.head_count", 0)  # L9
        self.variant(put("llama.block_count", U32, 4000000000), "llama.block_count", 4000000000)
        self.variant(put("llama.block_count", U32, 3), "blk.2")
        self.variant(put("llama.embedding_length", U32, 0), "llama.embedding_length")
        self.variant(put("llama.embedding_length", STR, "wide"), "llama.embedding_length")
        self.variant(put("llama.attention.head_count_kv", U32, 3), "4 heads", "3 KV heads")
        self.variant(put("llama.context_length", U64, 2 ** 63), "llama.context_length")
        self.variant(put("llama.rope.freq_base", F32, float("nan")), "llama.rope.freq_base")
        self.variant(put("llama.rope.dimension_count", U32, 7), "rope")
        self.variant(put("llama.rope.dimension_count", U32, 1000), "rope.dimension_count", 1000)
        self.variant(put("llama.attention.layer_norm_rms_epsilon", F32, float("inf")), "epsilon")
        self.variant(put("general.architecture", STR, "no-such-family"), "no-such-family")
        self.variant(put("general.architecture", STR, ""), "v.gguf")
        self.variant(put("general.architecture", STR, b"\xff\xfe\x1b[31m"), "v.gguf")
        self.variant(put("tokenizer.ggml.model", STR, "abacus"), "abacus")
        p = put("tokenizer.ggml.bos_token_id", U32, 99999)(Gguf(MODEL)).write(self.path("v.gguf"))
        self.assertIn("bos_token_id", self.good("run", p, "hello", "-n", 2).stderr)  # said, and done without
        self.variant(put("tokenizer.ggml.tokens", ARR, (STR, [])), "tokens")
        self.variant(put("tokenizer.ggml.tokens", ARR, (U32, [1, 2])), "tokens")
        self.variant(put("tokenizer.ggml.merges", ARR, (U32, [1])), "merges")
        p = put("tokenizer.ggml.merges", ARR, (STR, ["nospace", "", " ", "a "]))(Gguf(MODEL)).write(self.path("v.gguf"))
        self.assertIn(self.run_it("run", p, "hello", "-n", 2).returncode, (0, 1))

        def without(key):
            return lambda g: g.meta.pop(key)
        for key in ("general.architecture", "llama.block_count", "llama.embedding_length", "llama.attention.head_count",
                    "tokenizer.ggml.tokens", "tokenizer.ggml.model"):
            self.variant(without(key), key)

    def test_lengths_and_depth(self):
        """L13: a string of 2^64-1 bytes; arrays of arrays, 1000 deep; counts that cannot be."""
        head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
        arch = common.string("general.architecture") + struct.pack("<I", STR)
        for n in (2 ** 64 - 1, 2 ** 63, 2 ** 40, 100):
            self.refused(self.put("a.gguf", head + arch + struct.pack("<Q", n) + b"llama"), "a.gguf")
            self.refused(self.put("b.gguf", head + struct.pack("<Q", n) + b"key"), "b.gguf")
            self.refused(self.put("c.gguf", b"GGUF" + struct.pack("<IQQ", 3, n, 0)), "c.gguf")
            self.refused(self.put("d.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, n)), "d.gguf")
            for kind in (U32, STR, BOOL, F32):
                self.refused(self.put("e.gguf", head + common.string("x") + struct.pack("<IIQ", ARR, kind, n)), "e.gguf")
        deep = common.string("x") + struct.pack("<I", ARR) + struct.pack("<IQ", ARR, 1) * 1000 + struct.pack("<IQ", U32, 0)
        self.refused(self.put("deep.gguf", head + deep), "deep.gguf")
        for version in (0, 1, 4):
            self.refused(self.put("v.gguf", b"GGUF" + struct.pack("<IQQ", version, 0, 0)), "v.gguf", "version")

    def test_byte_tokens(self):
        """L11: byte tokens spelled in wrong ways are plain text or an error; L15: no newline token."""
        for names in (["<0x-1>", "<0xZZ>", "<0x1"], ["<0x", "", "<0x111>"]):
            tokens = ["<unk>", "<s>", "</s>", "a", "b", "\u2581"] + names
            g = Gguf()
            g.set("general.architecture", STR, "llama").set("tokenizer.ggml.model", STR, "llama")
            g.set("tokenizer.ggml.tokens", ARR, (STR, tokens))
            g.set("tokenizer.ggml.scores", ARR, (F32, [0.0] * len(tokens)))
            g.set("tokenizer.ggml.token_type", ARR, (I32, [2, 3, 3, 1, 1, 1] + [6] * len(names)))
            p = g.write(self.path("t.gguf"))
            r = self.run_it("tokenize", p, "ab\nc\u20ac")
            self.assertIn(r.returncode, (0, 1), r.stderr)
            r = self.run_it("pipe", p, input=json.dumps({"op": "stream", "ids": list(range(len(tokens)))}).encode())
            self.assertIn(r.returncode, (0, 1), r.stderr)
        g = Gguf(MODEL)  # L15: the newline is a token of its own in byte-level vocabularies: rename it
        kind, raw = g.meta["tokenizer.ggml.tokens"]
        at = raw.index(common.string("\u010a"))
        g.meta["tokenizer.ggml.tokens"] = (kind, raw[:at] + common.string("\u0100\u0100x") + raw[at + 10:])
        p = g.write(self.path("v.gguf"))
        r = self.run_it("run", p, "a\nb", "-n", 20, "--repeat-penalty", 1.3, "--presence-penalty", 1, "--ignore-eos")
        self.assertIn(r.returncode, (0, 1), r.stderr)

    def test_terminal_codes_in_names(self):
        g = Gguf(MODEL).set("general.name", STR, "evil\x1b]0;owned\x07\n\x1b[31mname")
        p = g.write(self.path("v.gguf"))
        for args in (["info", p], ["info", p, "--json"], ["run", p, "hello", "-n", 1]):
            r = self.run_it(*args)
            self.assertEqual(r.returncode, 0, r.stderr)
            if args[0] == "info":
                self.assertNotIn("\x1b", r.stdout + r.stderr)


class Scarcity(Case):
    def test_no_memory(self):
        if SANITIZED:
            return print("skipped: a limit of address space cannot be set under a sanitizer")
        worst = set()
        for mib in (30, 40, 50, 60, 70, 80, 90, 100, 120, 150, 200):
            def limit(mib=mib):
                resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))
            for args in (["run", MODEL, "hello", "-n", "2", "-t", "2"], ["run", MODEL, "hello", "--ctx", "1000000", "-n", "2"],
                         ["logits", MODEL, "--tokens", self.tokens([1, 2]), "--out", self.path("o")],
                         ["quantize", MODEL, self.path("q"), "q8_0", "-q"]):
                r = self.run_it(*args, preexec_fn=limit)
                self.assertIn(r.returncode, (0, 1, 127), "%d MiB: %s" % (mib, r.stderr))  # 127: the loader's own
                if r.returncode:
                    self.assertNotEqual(r.stderr, "", "%d MiB" % mib)
                worst.add(r.returncode)
        self.assertIn(1, worst)
        self.assertIn(0, worst)

    def test_huge_context(self):
        r = self.run_it("run", MODEL, "hello", "--ctx", 16777216, "--parallel", 1024, "--kv-tokens", 10 ** 10, "-n", 2)
        self.assertIn(r.returncode, (0, 1))
        if r.returncode:
            self.assertRegex(r.stderr, "memory|pages|KV")

    def test_full_disk(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
        for args in (["quantize", MODEL, self.path("q.gguf"), "f32", "-q"],
                     ["logits", MODEL, "--tokens", self.tokens([1] * 64), "--all", "--out", self.path("l.f32")]):
            self.bad(args, "large", code=1, preexec_fn=limit)
            self.assertEqual(os.listdir(self.dir.name), ["ids.json"])

    def test_full_disk_for_real(self):
        where = self.path("small")
        os.mkdir(where)
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", where],
                                               capture_output=True).returncode:
            return print("skipped: a full disk needs root and mount")
        try:
            self.bad(["quantize", MODEL, os.path.join(where, "q.gguf"), "q8_0", "-q"], "No space", code=1)
            self.assertEqual(os.listdir(where), [])
        finally:
            subprocess.run(["umount", where], check=True)


class Interrupts(Case):
    def stop(self, p):
        """One SIGINT: the process must end soon after, by its processor's time (a clock's is the neighbours' too)."""
        def ended():
            r = resource.getrusage(resource.RUSAGE_CHILDREN)
            return r.ru_utime + r.ru_stime
        over, until_now = p.poll() is not None, 0
        others = ended()
        if not over:
            with open("/proc/%d/stat" % p.pid, encoding="ascii", errors="replace") as f:
                fields = f.read().rpartition(")")[2].split()
            until_now = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        p.send_signal(signal.SIGINT)
        said = p.communicate(timeout=common.LONG)
        self.assertLess(ended() - others - until_now, 20, p.args)
        return said

    def interrupt(self, *args, wait=0.7, writes=False, **kw):
        """Starts a long command, sends one SIGINT while it runs: it must end by itself, soon, with 130. How long
        it would run depends on the machine, so one that was over already is tried again with a shorter wait, and with
        `writes` one that had not begun to answer with a longer one."""
        wait *= 3 if SANITIZED else 1
        for _ in range(12):
            p = subprocess.Popen([HAYATE, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=common.clean_env(), **kw)
            common.listens(p)
            end = time.monotonic() + wait
            while p.poll() is None and time.monotonic() < end:
                time.sleep(0.005)
            out, err = self.stop(p)
            if p.returncode != 0 and (out or not writes):
                break
            wait *= 2 if p.returncode else 0.5
        p.stderr = err.decode("utf-8", "replace")
        common.judge(self, p)
        self.assertEqual(p.returncode, 130, "%s: %s" % (args, p.stderr))
        return out, p.stderr

    def test_run(self):
        long = [MODEL, "hello", "--ctx", 1000000, "--ignore-eos"]
        out, _ = self.interrupt("run", *long, writes=True)
        self.assertGreater(len(out), 0)
        out, _ = self.interrupt("run", *long, "--json", writes=True)
        self.assertEqual(json.loads(out)["finish"], "cancelled")

    def test_waiting_for_input(self):
        for args in (["run", MODEL], ["tokenize", MODEL], ["run", MODEL, "-f", "-"]):
            p = subprocess.Popen([HAYATE, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=common.clean_env())
            time.sleep(0.3)
            p.send_signal(signal.SIGINT)
            _, err = p.communicate(timeout=common.LONG)
            self.assertIn(p.returncode, (130, -signal.SIGINT), err)  # a reader of pipes may die the plain way

    def test_measuring(self):
        text = self.put("t.txt", "The quick brown fox jumps over the lazy dog. " * 20000)
        self.interrupt("eval", "perplexity", MODEL, "-f", text)
        self.interrupt("eval", "kl", MODEL, "--base", MODEL, "-f", text)
        self.interrupt("bench", MODEL, "-r", 1000)
        self.interrupt("bench", MODEL, "-p", 0, "-n", 900000, "-r", 1)
        self.interrupt("logits", MODEL, "--ctx", 100000, "--tokens", self.tokens([7] * 60000), "--out", self.path("o"))
        self.assertFalse(os.path.exists(self.path("o")))

    def test_loading(self):
        if not SMOLLM2:
            return print("skipped: interrupting a load needs HAYATE_SMOLLM2")
        for wait in (0.02, 0.1, 0.2):
            p = subprocess.Popen([HAYATE, "run", SMOLLM2, "hello", "--ignore-eos"], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, env=common.clean_env())
            time.sleep(wait)
            _, err = self.stop(p)
            # before main has set its handler the signal ends it the plain way
            self.assertIn(p.returncode, (130, -signal.SIGINT), err)


PROMPT = r"> (\x1b\[[0-9;?]*[a-zA-Z])*$"


def has_terminals():
    try:
        for fd in pty.openpty():
            os.close(fd)
        return True
    except OSError:
        print("skipped: chat in a terminal: this system gives no pseudo-terminals")
        return False


class Terminal:
    """hayate in a terminal of 80 columns."""

    def __init__(self, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(HAYATE, [HAYATE, *map(str, args)], common.clean_env(TERM="xterm", HOME="/nonexistent"))
        termios.tcsetwinsize(self.fd, (24, 80)) if hasattr(termios, "tcsetwinsize") else None
        self.text = ""

    def type(self, s):
        os.write(self.fd, s.encode())

    def expect(self, pattern, seconds=common.LONG):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            m = re.search(pattern, self.text)
            if m:
                seen, self.text = self.text[:m.end()], self.text[m.end():]
                return seen
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.fd, 65536).decode("utf-8", "replace")
                except OSError:  # the other side has gone
                    end = 0 if re.search(pattern, self.text) is None else end
        raise AssertionError("%r did not come; the screen: %r" % (pattern, self.text[-2000:]))

    def prompt(self):
        """Waits for the prompt, and until libedit listens: it throws away what was typed before it takes the
        terminal out of line mode (no person types so fast)."""
        self.expect(PROMPT)
        end = time.monotonic() + common.LONG
        while termios.tcgetattr(self.fd)[3] & termios.ICANON:
            if time.monotonic() > end:
                raise AssertionError("the prompt does not listen")
            time.sleep(0.01)
        time.sleep(0.1)

    def end(self):
        """The exit status; what it still writes is read, for it must not wait for us."""
        end = time.monotonic() + common.LONG
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            try:
                if select.select([self.fd], [], [], 0.05)[0]:
                    self.text += os.read(self.fd, 65536).decode("utf-8", "replace")
            except OSError:  # it has closed the terminal and is about to end
                time.sleep(0.05)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return "had to be killed"


class Chat(Case):
    def chat(self, text, *args):
        return self.run_it("chat", MODEL, "--temp", 0, "-n", 6, "--quiet", *args, input=text.encode("utf-8", "surrogateescape"))

    def test_over_a_pipe(self):
        r = self.chat("Hello\n")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertEqual(self.chat("Hello").stdout, r.stdout)  # no newline at the end
        self.assertEqual(self.chat("").stdout, "")
        two = self.chat("Hello\nHello\n").stdout
        self.assertTrue(two.startswith(r.stdout))
        self.assertEqual(self.chat("Hello\n/quit\nHello\n").stdout, r.stdout)
        again = self.chat("Hello\n/clear\nHello\n").stdout
        self.assertEqual(again, r.stdout * 2)

    def test_lines_and_commands(self):
        shown = self.chat("a\\\nb\n/show\n").stdout
        self.assertIn("a\nb", shown)
        self.assertIn("x\n\ny\\\nz", self.chat('"""\nx\n\ny\\\nz\n"""\n/show\n').stdout)
        self.assertIn("Be terse.", self.chat("/system Be terse.\n/show\n").stdout)
        self.assertNotIn("Hello", self.chat("Hello\n/undo\n/show\n").stdout.split("<|begin", 1)[-1])
        self.assertIn("/quit", self.chat("/help\n").stdout)
        self.assertIn("llama", self.chat("/stats\n").stdout)
        self.assertIn("/dance", self.chat("/dance\n").stderr)
        a = self.chat("Hello\n/again\n").stdout.splitlines()
        self.assertEqual(a[:len(a) // 2], a[len(a) // 2:])
        for line in ("/set", "/set temp", "/set p 1", "/set temp nan", "/set top-p 7", "/set predict 0", "/set  ",
                     "/again", "/load", "/load /nowhere", "/save", "/save /nowhere/x", "/", "/set seed -1"):
            r = self.chat(line + "\n")
            self.assertEqual(r.returncode, 0, line)
            self.assertTrue(r.stderr.startswith("hayate chat: "), "%s: %r" % (line, r.stderr))
            self.assertTrue(r.stderr.isprintable() or r.stderr.count("\n") == 1, r.stderr)
        self.assertIn("temp = 0.5", self.chat("/set temp 0.5\n").stdout)
        f = self.path("c.json")
        r = self.chat("Hello\n/save %s\n/clear\n/load %s\n/show\n" % (f, f))
        self.assertIn("Hello", r.stdout.split("saved", 1)[1])
        # what was computed lies beside it, and is checked when it is read
        self.assertRegex(self.chat("Hello, tell me a story.\n/save %s\n" % f).stdout, r"\d+ computed tokens to .*c\.json\.kv")
        self.assertRegex(self.chat("/load %s\n" % f).stdout, r"2 messages\n\d+ computed tokens")
        with open(f + ".kv", "r+b") as kv:
            kv.seek(100)
            kv.write(b"changed")
        self.assertIn("computes them again", self.chat("/load %s\n" % f).stderr)
        self.put("bad.json", '[{"content": 1}]')
        self.assertIn("bad.json", self.chat("/load %s\n" % self.path("bad.json")).stderr)

    def test_bad_input(self):
        r = self.chat("\udcff\udcfe\nHello\n")
        self.assertEqual(r.returncode, 0)
        self.assertIn("UTF-8", r.stderr)
        self.assertEqual(r.stdout, self.chat("Hello\n").stdout)
        r = self.chat("word " * 400 + "\nHello\n", "--ctx", 128)
        self.assertIn("128", r.stderr)
        self.assertEqual(r.returncode, 0)
        self.assertNotEqual(r.stdout, "")
        g = Gguf(MODEL)
        del g.meta["tokenizer.chat_template"]
        self.bad(["chat", g.write(self.path("v.gguf"))], "template", input=b"Hello\n")

    def test_terminal(self):
        if not has_terminals():
            return
        t = Terminal("chat", MODEL, "--temp", 0, "--ctx", 1000000, "--ignore-eos", "-n", 900000)
        t.prompt()
        for wait in (0.7, 0.1, 0.3):
            t.type("/clear\r")
            t.prompt()
            t.type("Hello\r")
            t.expect(r"Hello[^\n]*\n")
            t.expect(r"[^\s\x1b]")  # the answer has begun: before the line is read, Ctrl-C would be the prompt's
            time.sleep(wait)
            t.type("\x03")  # stops the answer, not the program; and a write that it meets does no harm
            t.expect("stopped")
            t.prompt()
        t.type("/set predict 3\r")
        t.expect("predict = 3")
        t.prompt()
        t.type("Hello again\r")
        t.expect("length reached")
        t.prompt()
        t.type("half a line\x03")  # Ctrl-C at the prompt begins it anew
        t.prompt()
        t.type("/stats\r")
        t.expect("threads")
        t.prompt()
        t.type("/quit\r")
        self.assertEqual(t.end(), 0)

    def test_end_of_input_in_terminal(self):
        if not has_terminals():
            return
        t = Terminal("chat", MODEL)
        t.prompt()
        t.type("\x04")
        self.assertEqual(t.end(), 0)


if __name__ == "__main__":
    HAYATE = test_cli.HAYATE = os.path.abspath(sys.argv.pop(1))
    with open(HAYATE, "rb") as program:
        SANITIZED = b"__asan_init" in program.read() or b"__tsan_init" in program.read()
    unittest.main(verbosity=1)
