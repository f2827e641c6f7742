"""`hayate tune` and results of `hayate bench` that are kept, from outside. Nothing here depends on how fast anything is.

usage: test_tune.py HAYATE [TEST...]"""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import common
from common import LLAMA, MODEL

sys.path.insert(0, os.path.join(common.ROOT, "bench"))
import half_core  # noqa: E402

HAYATE = None
QUICK = ["-p", "48", "-n", "4", "--streams", "2"]
MINUTES = (0.05, 0.5, 5)  # a search that has tried everything ends by itself: more is for a machine that stands still meanwhile


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.env = {"HAYATE_CACHE": os.path.join(self.dir.name, "cache")}
        self.minutes = MINUTES[0]

    def tearDown(self):
        self.dir.cleanup()

    def path(self, *name):
        return os.path.join(self.dir.name, *name)

    def run_it(self, *args, **kw):
        kw.setdefault("env", self.env)
        return common.run(self, HAYATE, *args, **kw)

    def good(self, *args, **kw):
        r = self.run_it(*args, **kw)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r

    def bad(self, args, *words, code=2, **kw):
        r = self.run_it(*args, **kw)
        self.assertEqual(r.returncode, code, "%s %s" % (args, r.stderr))
        for w in words:
            self.assertIn(str(w), r.stderr)
        return r

    def doctor(self, path, tps=None, **fields):
        """Changes a kept result. tps: of every shape, about; a file may name speeds below 1e12."""
        with open(path, encoding="utf-8") as f:
            o = json.load(f)
        for s in o["shapes"] if tps else ():
            s["tps"] = [tps * (1 - k / 1000) for k in range(len(s["tps"]))]
        o.update(fields)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(o, f)

    def kept(self):
        found = glob.glob(self.path("cache", "hayate", "tuned-*.conf"))
        self.assertEqual(len(found), 1, found)
        return found[0]

    def search(self, run):
        """run(minutes) with as many as this machine needs, now, to measure anything."""
        self.minutes, r = common.long_enough(run, [m for m in MINUTES if m >= self.minutes])
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def tune(self, goal, *more):
        return json.loads(self.search(lambda minutes: self.run_it("tune", MODEL, "--goal", goal, "--minutes", minutes, *QUICK, *more,
                                                                  "--json")))


class Tune(Case):
    def test_goals(self):
        for goal, unit in (("ttft", "ms"), ("throughput", "tokens/s"), ("memory", "MiB")):
            o = self.tune(goal)
            self.assertEqual((o["goal"], o["unit"], o["kept"]), (goal, unit, False))
            self.assertLessEqual(o["ratio"], 1)  # never worse than the defaults
            self.assertGreater(o["default"]["value"], 0)
            names = [s["name"] for s in o["settings"]]
            for name in ("threads", "threads-decode", "weights", "kv-type", "step", "speculate", "page", "pin", "no-huge-pages"):
                self.assertIn(name, names)
            for s in o["settings"]:
                if s["name"] in ("weights", "kv-type"):  # nothing that changes the text unasked
                    self.assertEqual((s["tried"], s["choice"]), ([], s["default"]), s)
                for t in s["tried"]:
                    if t["rounds"]:
                        self.assertGreater(t["measured"], 0)
                if not s["tried"] and not o["out_of_time"]:
                    self.assertTrue(s["closed"], s)
            with open(self.kept(), encoding="utf-8") as f:
                self.assertEqual(f.read(), o["config"])
            self.assertEqual(o["path"], self.kept())
            chosen = [s["name"] for s in o["settings"] if s["choice"] != s["default"]]
            r = self.good("run", MODEL, "hello", "-n", 2, "--temp", 0)
            self.assertEqual("tuned:" in r.stderr, bool(chosen), r.stderr)

    def test_kept_and_fresh(self):
        first = self.tune("ttft")
        again = self.tune("ttft")
        self.assertTrue(again["kept"])
        self.assertEqual((again["made"], again["config"]), (first["made"], first["config"]))
        self.assertFalse(self.tune("ttft", "--fresh")["kept"])
        self.assertFalse(self.tune("ttft", "-t", 1)["kept"])  # another question
        out = self.path("x.conf")
        text = self.good("tune", MODEL, "--goal", "ttft", "--minutes", self.minutes, *QUICK, "--out", out).stdout
        self.assertIn("kept from before", text)
        self.assertIn(out, text)
        self.assertIn("page", text)
        self.assertIn("first token of a prompt of 48 tokens", text)
        self.assertTrue(os.path.exists(out))

    def test_quality(self):
        for self.minutes in MINUTES:
            o = self.tune("memory", "--quality-loss", "90%", "--fresh")
            tried = {s["name"]: s["tried"] for s in o["settings"]}
            if not o["out_of_time"]:
                break
        self.assertTrue(any("quality_loss" in t for t in tried["weights"] + tried["kv-type"]), tried)
        self.assertGreater(o["scored_tokens"], 0)
        for t in tried["weights"] + tried["kv-type"]:
            if t["verdict"] == "kept":
                self.assertLessEqual(t["quality_loss"], 0.9)
        o = self.tune("memory", "--quality-loss", "0.000001%", "-f", os.path.join(common.ROOT, "README.md"))
        for s in o["settings"]:
            for t in s["tried"]:
                if t["verdict"] == "kept":
                    self.assertLessEqual(t.get("quality_loss", 0), 1e-8)

    def test_given_stays(self):
        o = self.tune("throughput", "-t", 1, "--step", 32, "--kv-type", "f16")
        by = {s["name"]: s for s in o["settings"]}
        for name, value in (("threads", "1"), ("step", "32"), ("kv-type", "f16")):
            self.assertEqual((by[name]["choice"], by[name]["closed"], by[name]["tried"]), (value, "given", []))

    def test_stop(self):
        """Ctrl-C keeps what was found, and says so."""
        p = subprocess.Popen([HAYATE, "tune", MODEL, "--goal", "throughput", "--minutes", "20", "--streams", "128", "-n", "200"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=common.clean_env(**self.env))
        time.sleep(25)
        if p.poll() is not None:
            print("skipped: the search was over before it could be stopped")
            p.communicate()
            return
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=common.LONG)
        if p.returncode == 0:
            print("skipped: the search was over when it was to be stopped")
            return
        self.assertEqual(p.returncode, 130, err)
        if "stopped" in err:
            print("skipped: a slow machine: nothing had been measured yet")
            return
        self.assertIn("Stopped before the end", out)
        self.assertTrue(os.path.exists(self.kept()))

    def test_wrong(self):
        self.bad(["tune", MODEL], "--goal", "memory")
        self.bad(["tune", MODEL, "--goal", "fun"], "fun", "throughput", code=1)
        self.bad(["tune", MODEL, "--goal", "ttft", "--ttft", "200ms"], "throughput", code=1)
        self.bad(["tune", MODEL, "--goal", "memory", "--ttft", "soon"], "--ttft", "soon")
        self.bad(["tune", MODEL, "--goal", "memory", "--ttft", "0ms"], "--ttft", "0")
        self.bad(["tune", MODEL, "--goal", "memory", "--quality-loss", "101%"], "--quality-loss", "100")
        self.bad(["tune", MODEL, "--goal", "memory", "--quality-loss", "2"], "--quality-loss", "2")
        self.bad(["tune", MODEL, "--goal", "memory", "--speed-loss", "-1%"], "--speed-loss")
        self.bad(["tune", MODEL, "--goal", "memory", "--minutes", "0"], "minutes")
        self.bad(["tune", self.path("no"), "--goal", "ttft"], "no", code=1)
        self.bad(["tune", MODEL, "--goal", "ttft", *QUICK, "--out", self.path("no", "x")], "no/x", code=1)
        self.bad(["tune"], "usage")


class Tuned(Case):
    """What the commands make of the file."""

    def write(self, lines, name=None, **head):
        """A file as tune writes it, with these settings."""
        with open(self.kept() if name is None else name, encoding="utf-8") as f:
            old = f.read().splitlines()
        text = [line for line in old if line.startswith("#!")]
        for key, value in head.items():
            text = [line if not line.startswith("#! %s " % key) else "#! %s %s" % (key, value) for line in text]
        with open(self.kept() if name is None else name, "w", encoding="utf-8") as f:
            f.write("\n".join(text + lines) + "\n")

    def setUp(self):
        super().setUp()
        self.tune("ttft")

    def test_read(self):
        self.write(["threads = 1", "step = 7", "kv-type = q8"])
        args = ["run", MODEL, "hello", "-n", 3, "--temp", 0, "--json"]
        r = self.good(*args)
        self.assertEqual(len(r.stderr.splitlines()), 1, r.stderr)
        for word in ("tuned:", "threads=1", "step=7", "kv-type=q8", "ttft", "--no-tuned"):
            self.assertIn(word, r.stderr)
        self.assertEqual(self.good(*args, "--no-tuned").stderr, "")
        self.assertEqual(self.good(*args, "--quiet").stderr, "")
        r = self.good("bench", MODEL, "-p", 8, "-n", 2, "-r", 1, "--json")
        self.assertIn("kv-type=q8", r.stderr)
        self.assertEqual([json.loads(line)["kv_type"] for line in r.stdout.splitlines()], ["q8"] * 2)
        # a flag, the environment and the user's config win
        r = self.good("bench", MODEL, "-p", 8, "-n", 2, "-r", 1, "--json", "--kv-type", "bf16")
        self.assertNotIn("kv-type", r.stderr)
        self.assertEqual(json.loads(r.stdout.splitlines()[0])["kv_type"], "bf16")
        r = self.good("bench", MODEL, "-p", 8, "-n", 2, "-r", 1, "--json", env=dict(self.env, HAYATE_KV_TYPE="f16"))
        self.assertEqual(json.loads(r.stdout.splitlines()[0])["kv_type"], "f16")
        with open(self.path("config"), "w", encoding="utf-8") as f:
            f.write("kv-type = auto\nthreads = 2\n")
        r = self.good("bench", MODEL, "-p", 8, "-n", 2, "-r", 1, "--json", env=dict(self.env, HAYATE_CONFIG=self.path("config")))
        self.assertEqual(json.loads(r.stdout.splitlines()[0])["kv_type"], "f32")
        self.assertIn("step=7", r.stderr)
        self.assertNotIn("threads", r.stderr)
        # commands that only look do not read it
        self.assertEqual(self.good("explain", MODEL).stderr, "")

    def test_threads_given(self):
        """-t means both numbers: the file's other one would undo it."""
        self.write(["threads-decode = 1", "threads = 2", "step = 9"])
        r = self.good("run", MODEL, "hello", "-n", 2, "-t", 2)
        self.assertNotIn("threads-decode", r.stderr)
        self.assertIn("step=9", r.stderr)

    def test_broken(self):
        for lines, words in ((["threads = 0"], ("threads", "256")), (["nonsense"], ("nonsense", "line 7")),
                             (["port = 1"], ("port",)), (["step = 1x"], ("step", "1x"))):
            self.write(lines)
            self.bad(["run", MODEL, "hello"], self.kept(), "--no-tuned", *words)
            self.good("run", MODEL, "hello", "-n", 1, "--no-tuned")
        for data in (b"", b"\xff\x00\x01", b"#! hayate-tuned 9\n"):
            with open(self.kept(), "wb") as f:
                f.write(data)
            self.bad(["run", MODEL, "hello"], self.kept())

    def test_stale(self):
        self.write(["threads = 1"], version="0.0.1")
        r = self.good("run", MODEL, "hello", "-n", 1)
        self.assertIn("another version", r.stderr)
        self.write(["threads = 1"], version="0.1.0", machine="a loom; quota 0.50")
        self.assertIn("another machine", self.good("run", MODEL, "hello", "-n", 1).stderr)
        os.rename(self.kept(), self.kept()[:-21] + "0" * 16 + ".conf")  # left by another machine in a shared home
        self.assertIn("another machine", self.good("run", MODEL, "hello", "-n", 1).stderr)
        other = os.path.join(common.DATA, "models", "gemma2", "model-f32.gguf")
        if os.path.exists(other):  # not of this model
            self.assertEqual(self.good("run", other, "hello", "-n", 1).stderr, "")

    def test_named(self):
        f = self.path("mine.conf")
        shutil.copy(self.kept(), f)
        self.write(["step = 11"], name=f)
        os.remove(self.kept())
        self.assertEqual(self.good("run", MODEL, "hello", "-n", 1).stderr, "")
        self.assertIn("step=11", self.good("run", MODEL, "hello", "-n", 1, "--tuned", f).stderr)
        self.assertIn("step=11", self.good("run", MODEL, "hello", "-n", 1, env=dict(self.env, HAYATE_TUNED=f)).stderr)
        self.bad(["run", MODEL, "hello", "--tuned", f, "--no-tuned"], "exclude")
        self.bad(["run", MODEL, "hello", "--tuned", self.path("no")], "no")
        hf = os.path.join(LLAMA, "hf")
        if os.path.exists(os.path.join(hf, "tokenizer.json")):
            self.assertIn("another model", self.good("run", hf, "hello", "-n", 1, "--tuned", f).stderr)
        # the same file serves as a plain config file
        self.good("run", MODEL, "hello", "-n", 1, env=dict(self.env, HAYATE_CONFIG=f))


class HalfACore(Case):
    """Limited to half a processor by control group, tune does not choose two threads."""

    def test_one_thread(self):
        with half_core.limited() as (how, enter):
            if not how:
                print("skipped: neither a control group nor a mount namespace can be made here")
                return
            for goal in ("ttft", "throughput", "memory"):
                o = json.loads(self.search(lambda minutes: subprocess.run(
                    enter + [HAYATE, "tune", MODEL, "--goal", goal, "--minutes", str(minutes)] + QUICK + ["--json"],
                    capture_output=True, text=True, timeout=common.LONG, env=common.clean_env(**self.env))))
                self.assertIn("quota 0.50", o["machine"])
                for s in o["settings"]:
                    if s["name"].startswith("threads"):
                        self.assertEqual((s["choice"], s["tried"]), ("1", []), s)
                self.assertNotIn("threads = 2", o["config"])


class Kept(Case):
    """bench --save and --compare."""

    SHAPES = ["-p", "16", "-n", "4", "-b", "1,2", "-r", "5"]

    def bench(self, *more, code=0):
        r = self.run_it("bench", MODEL, *self.SHAPES, "--results", self.path("kept"), *more)
        self.assertEqual(r.returncode, code, r.stdout + r.stderr)
        return r

    def files(self):
        return sorted(glob.glob(self.path("kept", "*.json")))

    def test_saved(self):
        self.bench("--save=first", "--kv-type", "f16")
        with open(self.files()[0], encoding="utf-8") as f:
            o = json.load(f)
        self.assertEqual((o["format"], o["name"], o["regressed"]), ("hayate-bench 1", "first", []))
        self.assertEqual(len(o["shapes"]), 4)
        for s in o["shapes"]:
            self.assertEqual(len(s["tps"]), 5)  # all repeats, not only the median
            self.assertEqual(s["kv_type"], "f16")
        for name in ("machine", "model", "commit", "flags", "at", "load"):
            self.assertIn(name, o)
        self.assertIn("kv=paged/f16", o["flags"])

    def test_compare(self):
        r = self.bench("--compare", "--save")
        self.assertIn("nothing is kept yet", r.stderr)
        # equal: whatever differs by less than the floor, ten thousand times either way, is noise (a tiny model beside busy
        # neighbours falls a hundredfold, and rises so when they leave)
        r = self.bench("--compare", "--noise-floor", "99.99%")
        self.assertEqual(r.stdout.count(": same"), 4, r.stdout)
        r = self.bench("--compare", "--noise-floor", "99.99%", "--json")
        lines = [json.loads(line) for line in r.stdout.splitlines()]
        self.assertEqual([x["verdict"] for x in lines if "compare" in x], ["same"] * 4)
        # once faster than anything is: every shape is named, and the status says it
        self.doctor(self.files()[0], 9e11)
        r = self.bench("--compare", "--save=bad", code=1)
        for shape in ("pp16 at depth 0, 1 row", "tg4 at depth 0, 2 rows"):
            self.assertIn("slower: " + shape, r.stderr)
        self.assertEqual(r.stdout.count(": slower"), 4, r.stdout)
        # what was slower is kept, and is no base unless it is named
        self.assertEqual(len(self.files()), 2)
        self.bench("--compare", code=1)
        self.bench("--compare=bad", "--noise-floor", "99.99%")
        for path in self.files():  # both: a commit may name either, and neither may be faster than this machine in a while
            self.doctor(path, 1e-6)
        r = self.bench("--compare")
        self.assertEqual(r.stdout.count(": faster"), 4, r.stdout)
        with open(self.files()[0], encoding="utf-8") as f:
            commit = json.load(f)["commit"]
        if commit != "unknown":
            self.bench("--compare=" + commit[:6])

    def test_other_shapes_and_options(self):
        self.bench("--save")
        r = self.bench("--compare", "-d", "16", "--noise-floor", "99.99%")
        self.assertEqual(r.stdout.count("the base has not measured it"), 4, r.stdout)
        self.assertIn("nothing is kept yet", self.bench("--compare", "--kv-type", "q8").stderr)

    def test_machine_and_broken_files(self):
        self.bench("--save")
        self.doctor(self.files()[0], machine="an abacus")
        self.assertIn("nothing is kept yet", self.bench("--compare").stderr)
        for data in ("", "[]", "{", '{"format": "hayate-bench 1"}'):
            with open(self.files()[0], "w", encoding="utf-8") as f:
                f.write(data)
            self.assertIn("not used", self.bench("--compare").stderr)
        os.remove(self.files()[0])
        self.bench("--save")
        for shapes in ([], [{"test": "pp"}], [{"test": "pp", "n": 16, "depth": 0, "rows": 1, "tps": ["x"]}],
                       [{"test": "pp", "n": 16, "depth": 0, "rows": 1, "tps": [0]}]):
            self.doctor(self.files()[0], shapes=shapes)
            self.assertIn("not used", self.bench("--compare").stderr)

    def test_wrong(self):
        self.bad(["bench", MODEL, "--compare", "-r", 3, "--results", self.path("kept")], "-r 4")
        self.bad(["bench", MODEL, "--compare=nobody", "--results", self.path("kept")], "nobody")
        self.bad(["bench", MODEL, "--compare", "--noise-floor", "x", "--results", self.path("kept")], "--noise-floor")
        self.bad(["bench", self.path("no"), "--save", "--results", self.path("kept")], "no")
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        self.bench("--save", "--results", self.path("file", "x"), code=1)
        self.bad(["bench", MODEL, "--save"], "--results", env=dict(self.env, HOME="", XDG_DATA_HOME=""))
        home = self.path("home")
        self.good("bench", MODEL, "-p", 8, "-n", 0, "-r", 1, "--save", env=dict(self.env, XDG_DATA_HOME=home))
        self.assertEqual(len(glob.glob(os.path.join(home, "hayate", "bench", "*.json"))), 1)


class Nightly(Case):
    """tools/nightly.sh, with the tiny model in the place of the real one: keeps, compares, ends with 1 when slower."""

    def night(self, code, floor):
        r = subprocess.run([os.path.join(common.ROOT, "tools", "nightly.sh"), "--measure", HAYATE, MODEL, "-p", "16", "-n", "4", "-d", "0",
                            "-r", "5", "--noise-floor", floor], capture_output=True, text=True, timeout=common.LONG,
                           env=common.clean_env(HAYATE_RESULTS=self.path("kept"), **self.env))
        self.assertEqual(r.returncode, code, r.stdout + r.stderr)
        return r

    def test_nights(self):
        self.night(0, "99.99%")
        self.night(0, "99.99%")
        kept = sorted(glob.glob(self.path("kept", "*.json")))
        self.assertEqual(len(kept), 2)
        self.doctor(kept[1], 9e11)
        self.assertIn("slower: pp16 at depth 0, 8 rows", self.night(1, "50%").stderr)
        self.assertEqual(len(glob.glob(self.path("kept", "*.json"))), 3)
        self.night(1, "50%")  # it stays named until it is mended, or kept on purpose


if __name__ == "__main__":
    HAYATE = os.path.abspath(sys.argv.pop(1))
    unittest.main()
