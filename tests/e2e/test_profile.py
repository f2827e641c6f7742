"""GET /debug/profile, and speculation as a request asks for it and as it is shown. Usage: test_profile.py HAYATE"""
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys

import common
import serve_common as S
from serve_common import Case

ROUTES = {  # a body for each route that takes "speculate", and where its timings are
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a b a b a b a"}], "max_tokens": 24, "temperature": 0},
    "/v1/completions": {"prompt": "a b a b a b a b a", "max_tokens": 24, "temperature": 0, "ignore_eos": True},
    "/v1/messages": {"model": "m", "messages": [{"role": "user", "content": "a b a b a b a"}], "max_tokens": 24, "temperature": 0},
    "/v1/responses": {"input": "a b a b a b a", "max_output_tokens": 24, "temperature": 0},
}


class Profile(Case):
    flags = None

    def busy(self, server):
        """Somebody whose answer takes minutes; gone after the test."""
        r = server.raw()
        self.addCleanup(r.close)
        r.request("POST", "/v1/completions", {**S.LONG, "stream": True})
        self.assertEqual(r.head()[0], 200)
        r.chunk()
        return r

    def long(self, server):
        """A profile of a minute that runs, and the answer to a second one."""
        def begun():
            r = server.raw()
            self.addCleanup(r.close)
            r.send("GET /debug/profile?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            refused = server.get("/debug/profile?seconds=1")
            if refused.status == 409:
                return r, refused
            r.close()  # the second one came first: the long one was refused
        return S.until("a long profile to run", begun)

    def test_forms(self):
        s = self.start(*S.LONG_FLAGS, "--threads", 2)
        self.busy(s)
        o = s.get("/debug/profile?seconds=1")
        self.assertEqual((o.status, o.getheader("content-type")), (200, "application/json"), o.body)
        o = o.json()
        load = o["load"]
        self.assertGreater(load["output_tokens"], 0)
        self.assertGreaterEqual(load["seconds"], 1)
        shares, wall = {}, sum(f["ms"] for f in o["phases"])
        for f in o["phases"]:
            parts = sum(op["ms"] for op in f["operators"]) + f["waiting_ms"] + f["outside_ms"]
            self.assertAlmostEqual(parts / f["ms"], 1, delta=0.02)
            for op in f["operators"]:
                shares[op["op"]] = shares.get(op["op"], 0) + op["ms"] / wall
        largest = max(shares, key=shares.get)
        self.assertEqual(o["largest"]["operator"], largest)
        self.assertAlmostEqual(o["largest"]["share"], shares[largest], delta=0.01)
        self.assertIn("`%s`" % largest, load["prose"])
        self.assertTrue(any("`%s`" % largest in f["prose"] for f in o["phases"]))
        # as text: the operator that it names has the largest time in its own table
        for r in (s.get("/debug/profile?seconds=1&format=text"), s.get("/debug/profile?seconds=1", accept="text/plain")):
            self.assertEqual((r.status, r.getheader("content-type")), (200, "text/plain; charset=utf-8"))
            text = re.sub(r"\s+", " ", r.body.decode())
            named = re.search(r"largest share of the steps is `([^`]+)`: (\d+) %", text)
            rows = {}
            for name, ms in re.findall(r"^  (\S+) +([\d.]+) +[\d.]+ %  *[\d.]+ +[\d.]+  ", r.body.decode(), re.M):
                rows[name] = rows.get(name, 0) + float(ms)
            self.assertEqual(named[1], max(rows, key=rows.get))
            self.assertIn("Bottleneck:", text)
            self.assertLessEqual(max(map(len, r.body.decode().split("\n"))), 120)
        r = s.get("/debug/profile?seconds=1&format=trace")
        self.assertEqual(r.status, 200)
        self.assertIn("attachment", r.getheader("content-disposition"))
        events = r.json()["traceEvents"]
        names = {e["name"] for e in events}
        self.assertIn("matmul", names)
        self.assertEqual({e["args"]["name"] for e in events if e["ph"] == "M"}, {"steps", "thread 0", "thread 1"})
        for e in events:
            self.assertIn(e["ph"], "XM")
            if e["ph"] == "X":
                self.assertGreaterEqual(e["dur"], 0)
        s.close(self, code=None)

    def test_bounds(self):
        s = self.start()
        for wrong in ("0", "0.5", "61", "-1", "nan", "inf", "x", "", "1e9", "5s"):
            e = self.error(s.get("/debug/profile?seconds=" + wrong), 400, "seconds")
            self.assertEqual(e["param"], "seconds")
        e = self.error(s.get("/debug/profile?seconds=1&format=xml"), 400, "format", "xml", "trace")
        self.assertEqual(e["param"], "format")
        self.assertEqual(s.ask("POST", "/debug/profile", {}).status, 405)
        # nothing runs: that is said, in both forms
        o = s.get("/debug/profile?seconds=1").json()
        self.assertEqual(o["phases"], [])
        self.assertIsNone(o["largest"])
        self.assertIn("Nothing ran", o["load"]["prose"])
        s.close(self)

    def test_one_at_a_time(self):
        s = self.start()
        first, r = self.long(s)
        self.error(r, 409, "another profile", code="profile_running")
        self.assertTrue(0 < int(r.getheader("retry-after")) <= 61)
        self.assertEqual(s.post("/v1/completions", {"prompt": "a", "max_tokens": 3}).status, 200)  # workers are free
        first.close()  # its client leaves: the next one may
        S.until("the next", lambda: s.get("/debug/profile?seconds=1").status == 200)
        s.close(self)

    def test_stop(self):
        """A server that stops does not wait for a profile, and still answers it."""
        s = self.start("--drain-timeout", 50)
        r, _ = self.long(s)
        s.signal(signal.SIGTERM)
        status, _, body = r.response()
        self.assertEqual(status, 200)
        self.assertLess(json.loads(body)["load"]["seconds"], 59)
        s.close(self)

    def test_keys(self):
        path = self.path("keys")
        keys = [common.run(self, self.hayate, "serve", "keygen", n, "--api-keys", path).stdout.strip() for n in ("user", "root")]
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
        with open(path, "w", encoding="utf-8") as f:
            f.write("%s\n%s admin=1\n" % tuple(lines))
        s = self.start("--api-keys", path, "--debug")  # --debug opens nothing where there are keys
        get = lambda **h: s.get("/debug/profile?seconds=1", **h)
        self.assertEqual(get().status, 401)
        self.assertEqual(get(authorization="Bearer wrong").status, 401)
        self.error(get(authorization="Bearer " + keys[0]), 403, "user", "admin=1", code="not_allowed")
        self.assertEqual(get(authorization="Bearer " + keys[1]).status, 200)
        s.close(self)
        with open(path, "a", encoding="utf-8") as f:
            f.write(lines[0].replace("user", "third") + " admin=2\n")
        r = common.run(self, self.hayate, "serve", common.MODEL, "--port", "0", "--api-keys", path)
        self.assertEqual(r.returncode, 1)
        self.assertIn("admin is 0 or 1", r.stderr)

    def test_who_sits_here(self):
        """Without keys: this machine only, and no page of another site."""
        s = self.start()
        get = lambda **h: s.get("/debug/profile?seconds=1", **{k.replace("_", "-"): v for k, v in h.items()})
        for h in ({"x_forwarded_for": "192.0.2.7"}, {"forwarded": "for=192.0.2.7"}, {"via": "1.1 proxy"}, {"x_real_ip": "192.0.2.7"},
                  {"host": "example.com"}, {"host": "127.0.0.1.example.com:80"}, {"host": "localhost.example.com"}):
            self.error(get(**h), 403, "--debug", code="not_allowed")
        for site in ("cross-site", "same-site"):
            self.error(get(sec_fetch_site=site), 403, code="cross_site")
        for h in ({}, {"host": "localhost:1"}, {"host": "[::1]:80"}, {"host": "127.0.0.1"}, {"sec_fetch_site": "same-origin"}):
            self.assertEqual(get(**h).status, 200, h)
        s.close(self)
        s = self.start("--debug")
        self.assertEqual(get(x_forwarded_for="192.0.2.7").status, 200)
        s.close(self)
        path = self.path("socket")
        s = self.start("--unix", path)
        c = socket.socket(socket.AF_UNIX)
        c.connect(path)
        c.settimeout(S.PATIENCE)
        raw = S.Raw(c)
        self.addCleanup(raw.close)

        def ready():
            raw.request("GET", "/ready")
            return raw.response()[0] == 200
        S.until("the model", ready)
        raw.request("GET", "/debug/profile?seconds=1")
        self.assertEqual(raw.response()[0], 200)
        s.close(self)


class Speculation(Case):
    flags = ("--speculate", "ngram", "--spec-always", "--parallel", "4")

    def test_field(self):
        for path, body in ROUTES.items():
            for wrong in ("medusa", "", 1, True, ["ngram"]):
                r = self.server.post(path, {**body, "speculate": wrong})
                self.assertEqual(r.status, 400, (path, wrong))
                self.assertIn("speculate", r.json()["error"]["message"])
            for absent in ("draft", "self"):
                r = self.server.post(path, {**body, "speculate": absent})
                self.assertEqual(r.status, 400, (path, absent))
                message = r.json()["error"]["message"]
                for word in ("speculate", absent, "ngram"):  # what is wrong, and what there is
                    self.assertIn(word, message)
                if "messages" not in path:
                    self.assertEqual(r.json()["error"]["param"], "speculate")
            before = self.counts()
            for good in ("off", "ngram", "auto", None):
                self.assertEqual(self.server.post(path, {**body, "speculate": good}).status, 200, (path, good))
            self.assertGreaterEqual(self.counts(), before)

    def counts(self):
        return self.server.get("/stats").json()["number"]["vllm:spec_decode_num_draft_tokens_total"]

    def test_off_and_on(self):
        """The same text, drafts in one of them only; the numbers agree with each other."""
        body = ROUTES["/v1/completions"]
        before = self.counts()
        off = self.server.post("/v1/completions", {**body, "speculate": "off"}).json()
        self.assertEqual(self.counts(), before)
        t = off["timings"]
        self.assertEqual((t["draft_n"], t["draft_n_accepted"]), (0, 0))
        self.assertNotIn("draft_gain", t)
        on = self.server.post("/v1/completions", {**body, "speculate": "ngram"}).json()
        self.assertEqual(on["choices"], off["choices"])
        t = on["timings"]
        self.assertGreater(t["draft_n"], 0)
        self.assertEqual(sum(t["draft_n_at"]), t["draft_n"])
        self.assertEqual(sum(t["draft_n_accepted_at"]), t["draft_n_accepted"])
        self.assertEqual(sorted(t["draft_n_at"], reverse=True), t["draft_n_at"])  # a place is reached through those before it
        self.assertEqual(sorted(t["draft_n_accepted_at"], reverse=True), t["draft_n_accepted_at"])
        for n, good in zip(t["draft_n_at"], t["draft_n_accepted_at"]):
            self.assertLessEqual(good, n)
        self.assertTrue(0 < t["draft_gain"] < 20)
        self.assertEqual(self.counts(), before + t["draft_n"])

    def test_shown(self):
        self.server.post("/v1/completions", ROUTES["/v1/completions"])
        text = self.server.get("/metrics").body.decode()
        value = lambda name: float(re.search(r"^%s\{[^}]*\} (\S+)$" % re.escape(name), text, re.M)[1])
        place = lambda name: [float(v) for v in re.findall(r"^%s\{[^}]*position=\"\d+\"\} (\S+)$" % re.escape(name), text, re.M)]
        drafts, tokens = value("vllm:spec_decode_num_drafts_total"), value("vllm:spec_decode_num_draft_tokens_total")
        by_place = place("hayate_spec_decode_num_draft_tokens_per_pos_total")
        good = place("vllm:spec_decode_num_accepted_tokens_per_pos_total")
        self.assertEqual(drafts, by_place[0])
        self.assertEqual(tokens, sum(by_place))
        self.assertEqual(value("vllm:spec_decode_num_accepted_tokens_total"), sum(good))
        self.assertGreater(value("hayate_speculation_speedup_ratio"), 0)
        s = self.server.get("/stats").json()["speculation"]
        self.assertEqual(s["proposers"], ["ngram"])
        self.assertEqual([float(x) for x in s["drafted"]], by_place)
        self.assertEqual([float(x) for x in s["accepted"]], good)
        out = common.run(self, self.hayate, "top", self.server.url, "--once").stdout
        self.assertIn("Speculation", out)
        self.assertIn("place 1", out)
        self.assertRegex(out, r"since the start \d+ of \d+ were right: about \d+\.\d\d times")

    def test_without(self):
        """A server that was started without speculation says so."""
        s = self.start()
        r = s.post("/v1/completions", {**ROUTES["/v1/completions"], "speculate": "ngram"})
        self.error(r, 400, "speculate", "ngram", "--speculate")
        self.assertEqual(s.post("/v1/completions", {**ROUTES["/v1/completions"], "speculate": "auto"}).status, 200)
        self.assertEqual(s.get("/stats").json()["speculation"], {"proposers": [], "drafted": [], "accepted": []})
        s.close(self)

    def test_said_in_the_terminal(self):
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        r = subprocess.run([self.hayate, "run", common.MODEL, "-n", "24", "--ignore-eos", "--temp", "0", "--speculate", "ngram", "--spec-always",
                            "a b a b a b a b a"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, env=common.clean_env(),
                           timeout=S.PATIENCE)
        os.close(theirs)
        self.assertEqual(r.returncode, 0)
        said = b""
        while b"plain speed" not in said:
            said += os.read(ours, 65536)
        self.assertRegex(said.decode(), r"\d+ of \d+ drafted right \((\d+ )+% by place\), about \d+\.\d\d times the plain speed")


if __name__ == "__main__":
    S.Case.hayate = os.path.abspath(sys.argv.pop(1))
    S.unittest.main(verbosity=1)
