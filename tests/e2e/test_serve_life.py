"""`hayate serve` from start to end: who may ask, who leaves, how it stops; sockets and TLS.

usage: test_serve_life.py HAYATE [TEST...]"""
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import unittest
import warnings

import common
from serve_common import LONG, LONG_FLAGS, PATIENCE, Case, Raw, ask, events, until

GEN = "/v1/completions"
SMALL = {"prompt": "a", "max_tokens": 3, "ignore_eos": True, "temperature": 0}


def bearer(key):
    return {"Authorization": "Bearer " + key}


class Keys(Case):
    flags = None

    def keygen(self, name, path):
        r = common.run(self, self.hayate, "serve", "keygen", name, "--api-keys", path)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout.strip()

    def test_keygen(self):
        path = self.path("keys")
        key = self.keygen("alice", path)
        self.assertRegex(key, r"^sk-hayate-[A-Za-z0-9_-]{43}$")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        self.assertRegex(text, r"^alice sha256:[0-9a-f]{32}:[0-9a-f]{64}\n$")
        self.assertNotIn(key[10:], text)
        r = common.run(self, self.hayate, "serve", "keygen", "bob")
        self.assertRegex(r.stdout, r"^key:  sk-hayate-\S{43}\nline: bob sha256:\S+\n$")
        for bad in ("", "a b", "x" * 64, "a#"):
            self.assertNotEqual(common.run(self, self.hayate, "serve", "keygen", bad).returncode, 0)

    def test_who_may_ask(self):
        path = self.path("keys")
        a, b = self.keygen("alice", path), self.keygen("bob", path)
        s = self.start("--api-keys", path, "--cors", "*")
        for headers in ({}, bearer("sk-wrong"), bearer(""), bearer(a[:-1]), bearer(a + "x"), {"Authorization": a}, {"x-api-key": "no"}):
            for r in (s.get("/v1/models", **headers), s.post(GEN, SMALL, headers), s.get("/metrics", **headers)):
                self.error(r, 401, code="invalid_api_key")
                self.assertEqual(r.getheader("www-authenticate"), "Bearer")
                self.assertEqual(r.getheader("access-control-allow-origin"), "*")
        for headers in (bearer(a), bearer(b), {"x-api-key": a}, {"Authorization": "bearer  " + a}):
            self.assertEqual(s.get("/v1/models", **headers).status, 200)
            self.assertEqual(s.post(GEN, SMALL, headers).status, 200)
        for path in ("/health", "/ready", "/version"):
            self.assertEqual(s.get(path).status, 200)
        self.assertEqual(s.ask("OPTIONS", GEN).status, 204)
        # what alice asked is not bob's to see or to stop
        rid = s.post(GEN, SMALL, bearer(a)).getheader("x-request-id")
        until("the record", lambda: s.get("/v1/requests/" + rid, **bearer(a)).status == 200)
        self.error(s.get("/v1/requests/" + rid, **bearer(b)), 404)
        self.error(s.ask("DELETE", "/v1/requests/" + rid, headers=bearer(b)), 404)
        text = s.close(self)
        self.assertIn("key=alice", text)
        for key in (a, b):
            self.assertNotIn(key, text)

    def test_limits(self):
        path = self.path("keys")
        few, tokens, one = self.keygen("few", path), self.keygen("tokens", path), self.keygen("one", path)
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
        with open(path, "w", encoding="utf-8") as f:
            f.write("# comment\n\n%s requests=3\n%s tokens=10  # all\n%s parallel=1 priority=-5\n" % tuple(lines))
        for _ in range(5):  # a request of three a minute comes back after 20 s: four must be quicker than that
            s = self.start("--api-keys", path, *LONG_FLAGS)
            began = time.monotonic()
            answers = [s.post(GEN, SMALL, bearer(few)) for _ in range(4)]
            if time.monotonic() - began < 19:
                break
            s.close(self)
        for r, left in zip(answers, (2, 1, 0)):
            self.assertEqual(r.status, 200)
            self.assertEqual((r.getheader("x-ratelimit-limit-requests"), r.getheader("x-ratelimit-remaining-requests")), ("3", str(left)))
        r = answers[3]
        self.error(r, 429, "requests per minute", code="rate_limit_exceeded")
        self.assertTrue(1 <= int(r.getheader("retry-after")) <= 20)
        self.assertEqual(s.get("/v1/models", **bearer(few)).status, 200)  # only generating counts
        self.assertEqual(s.post(GEN, dict(SMALL, max_tokens=30), bearer(tokens)).status, 200)
        s.wait_log("path=%s status=200 .*key=tokens" % GEN)
        self.error(until("the tokens to be counted", lambda: (lambda r: r if r.status == 429 else None)(
            s.post(GEN, SMALL, bearer(tokens)))), 429, "tokens per minute")
        first = s.raw()
        first.request("POST", GEN, dict(LONG, stream=True), "Authorization: Bearer " + one)
        self.assertEqual(first.head()[0], 200)
        self.error(s.post(GEN, SMALL, bearer(one)), 429, "at once")
        first.close()
        until("the place to be free", lambda: s.post(GEN, SMALL, bearer(one)).status == 200)
        s.close(self)

    def test_reload(self):
        path = self.path("keys")
        a = self.keygen("alice", path)
        s = self.start("--api-keys", path)
        b = self.keygen("bob", path)
        self.assertEqual(s.get("/v1/models", **bearer(b)).status, 401)
        s.signal(signal.SIGHUP)
        until("the new key", lambda: s.get("/v1/models", **bearer(b)).status == 200)
        with open(path, "a", encoding="utf-8") as f:
            f.write("broken line\n")
        s.signal(signal.SIGHUP)
        s.wait_log("not reloaded.*line 3")
        for key in (a, b):
            self.assertEqual(s.get("/v1/models", **bearer(key)).status, 200)
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
        with open(path, "w", encoding="utf-8") as f:
            f.write(lines[1] + "\n")
        s.signal(signal.SIGHUP)
        until("the old key to be refused", lambda: s.get("/v1/models", **bearer(a)).status == 401)
        s.close(self)

    def test_reload_of_the_config(self):
        path = self.path("config")
        with open(path, "w", encoding="utf-8") as f:
            f.write("cors = https://a.example\nport = 0\n")
        s = self.start("--config", path)
        origin = lambda: s.get("/health").getheader("access-control-allow-origin")
        self.assertEqual(origin(), "https://a.example")
        for now in ("https://b.example", "*", "https://c.example"):
            with open(path, "w", encoding="utf-8") as f:
                f.write("cors = %s\n" % now)
            s.signal(signal.SIGHUP)
            until("the new origin", lambda: origin() == now)
        with open(path, "w", encoding="utf-8") as f:
            f.write("cors = x\nnonsense = 1\n")
        s.signal(signal.SIGHUP)
        s.wait_log("not reloaded")
        self.assertEqual(origin(), "https://c.example")
        s.close(self)


class Cancel(Case):
    flags = LONG_FLAGS + ("--parallel", "2")

    def idle(self):
        """Nothing runs or waits in the engine, and no request is known as running."""
        def check():
            n = self.server.get("/stats").json()["number"]
            return n["vllm:num_requests_running"] == 0 and n["vllm:num_requests_waiting"] == 0
        until("the engine to be idle", check)

    def record(self, rid, state):
        r = until("the record of " + rid, lambda: (lambda d: d if d.get("state") == state else None)(
            self.server.get("/v1/requests/" + rid).json()))
        self.assertLess(r["usage"]["output_tokens"], LONG["max_tokens"])
        return r

    def begin(self, **more):
        r = self.server.raw()
        r.request("POST", GEN, dict(LONG, **more))
        return r

    def test_mid_stream(self):
        ids = []
        for _ in range(6):  # three times as many as run at once
            r = self.begin(stream=True)
            status, h = r.head()
            self.assertEqual(status, 200)
            r.chunk()
            ids.append(h["x-request-id"])
            r.close()
        for rid in ids:
            d = self.record(rid, "cancelled")
            self.assertTrue(d["client_gone"])
            self.assertEqual(d["finish"], "cancelled")
        self.idle()
        self.assertEqual(self.server.post(GEN, SMALL).status, 200)

    def gone(self):
        return self.server.log().count("gone=1")

    def test_before_the_answer_and_in_the_queue(self):
        before = self.gone()
        open_ones = [self.begin(n=i % 2 + 1) for i in range(8)]
        until("them to run and to wait", lambda: self.server.get("/stats").json()["number"]["vllm:num_requests_waiting"] >= 3)
        for r in reversed(open_ones):
            r.close()
        until("all to be gone", lambda: self.gone() >= before + 8)
        self.idle()
        self.assertEqual(self.server.post(GEN, SMALL).status, 200)

    def test_reset_instead_of_close(self):
        r = self.begin(stream=True)
        _, h = r.head()
        r.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        r.close()
        self.record(h["x-request-id"], "cancelled")
        self.idle()

    def test_by_delete(self):
        r = self.begin(stream=True)
        _, h = r.head()
        rid = h["x-request-id"]
        r.chunk()
        d = self.server.get("/v1/requests/" + rid).json()
        self.assertEqual((d["id"], d["state"], d["answers"]), (rid, "running", 1))
        self.assertGreater(d["usage"]["prompt_tokens"], 0)
        got = self.server.ask("DELETE", "/v1/requests/" + rid)
        self.assertEqual((got.status, got.json()["cancelled"]), (200, True))
        rest = b"".join(iter(r.chunk, b""))  # the stream ends properly, and says why
        self.assertIn("cancelled", "".join(events(rest)[-2:]))
        r.close()
        d = self.record(rid, "cancelled")
        self.assertFalse(d["client_gone"])
        self.error(self.server.ask("DELETE", "/v1/requests/" + rid), 409)
        self.error(self.server.ask("DELETE", "/v1/requests/none"), 404)
        self.error(self.server.get("/v1/requests/none"), 404)
        self.idle()

    def test_work_after_leaving_is_counted(self):
        r = self.begin(stream=True)
        r.head()
        r.close()
        self.idle()
        text = self.server.get("/metrics").body.decode()
        self.assertRegex(text, r"(?m)^hayate_\w*after_cancel\w*(\{.*\})? \d")

    def test_why_was_it_slow(self):
        rid = self.server.post(GEN, dict(SMALL, prompt="word " * 60, max_tokens=5)).getheader("x-request-id")
        d = self.record(rid, "finished")
        self.assertEqual((d["status"], d["usage"]["output_tokens"], d["finish"]), (200, 5, "length"))
        self.assertGreaterEqual(d["times"]["total_ms"], d["times"]["ttft_ms"])
        self.assertTrue(any(s["kind"] == "queue" for s in d["spans"]))

    def test_health_meanwhile(self):
        busy = [self.begin(stream=True), self.begin(stream=True), self.begin(), self.begin()]
        c = self.server.connect()
        for _ in range(50):
            self.assertEqual(ask(c, "GET", "/health").status, 200)
        for r in busy:
            r.close()
        self.idle()


class Stop(Case):
    flags = None

    def running(self, s, **more):
        r = s.raw()
        r.request("POST", GEN, dict(LONG, stream=True, **more))
        self.assertEqual(r.head()[0], 200)
        return r

    def test_running_ones_finish(self):
        s = self.start("--drain-timeout", "600", *LONG_FLAGS)
        r = s.raw()
        r.request("POST", GEN, dict(LONG, stream=True, max_tokens=3000))
        self.assertEqual(r.head()[0], 200)
        open_one = s.raw()
        open_one.request("GET", "/health")
        self.assertEqual(open_one.response()[0], 200)
        s.signal(signal.SIGTERM)
        refused = []

        def drained():
            try:
                q = s.post(GEN, SMALL)
            except OSError:
                return True  # it was quick: already over
            if q.status == 503:
                refused.append(q)
            return refused
        until("refusals", drained)
        for q in refused:
            self.error(q, 503, code="draining")
            self.assertTrue(int(q.getheader("retry-after")) >= 1)
        body = b"".join(iter(r.chunk, b""))
        self.assertEqual(events(body)[-1], "[DONE]")
        self.assertEqual(len([d for d in events(body)[:-1] if json.loads(d)["choices"][0].get("finish_reason")]), 1)
        self.assertEqual(s.wait(), 0)
        s.close(self)

    def test_drain_states(self):
        s = self.start("--drain-timeout", "600", *LONG_FLAGS)
        r = self.running(s)
        s.signal(signal.SIGINT)
        until("draining", lambda: s.get("/ready").status == 503)
        self.assertEqual(s.get("/ready").json(), {"status": "draining"})
        self.assertEqual(s.get("/health").status, 200)
        self.assertEqual(s.get("/v1/models").status, 200)
        self.error(s.post(GEN, SMALL), 503)
        r.close()  # the last one leaves: nothing to wait for
        self.assertEqual(s.wait(), 0)
        s.close(self)

    def test_drain_timeout(self):
        s = self.start("--drain-timeout", "0.1", *LONG_FLAGS)
        streams = [self.running(s) for _ in range(3)]
        whole = s.raw()
        whole.request("POST", GEN, LONG)
        s.signal(signal.SIGTERM)
        for r in streams:  # they are told, and end properly
            self.assertIn("cancelled", events(b"".join(iter(r.chunk, b"")))[-1])
            r.close()
        self.assertEqual(whole.response()[0], 503)
        whole.close()
        self.assertIn("running requests are cancelled", s.close(self))

    def test_second_signal(self):
        s = self.start("--drain-timeout", "600", *LONG_FLAGS)
        r = self.running(s)
        s.signal(signal.SIGTERM)
        s.wait_log("serve: stopping")
        s.signal(signal.SIGTERM)
        self.assertEqual(s.wait(), -signal.SIGTERM)
        r.close()
        s.close(self, code=None)

    def test_idle_connections_do_not_hold_it(self):
        s = self.start()
        r = s.raw()
        r.request("GET", "/health")
        r.response()
        q = s.raw()
        q.send("GET /heal")
        self.assertEqual(s.close(self).count("running requests are cancelled"), 0)
        self.assertTrue(r.ended() and q.ended())
        r.close()
        q.close()


class Slow(Case):
    flags = ("--idle", "1")

    def test_quiet(self):
        r = self.server.raw()
        self.assertTrue(r.ended())
        r.close()

    def drip(self, *beginning):
        r = self.server.raw()
        for b in beginning:
            r.send(b)
        r.s.settimeout(0.1)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                r.send(b"a")
                if r.s.recv(1000) == b"":
                    return r.close()
            except socket.timeout:
                continue
            except OSError:
                return r.close()
        self.fail("a dripping connection lives on")

    def test_dripping_head(self):
        self.drip(b"GET /health HTTP/1.1\r\nX: ")

    def test_dripping_body(self):
        self.drip(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" % GEN.encode())

    def test_long_work_is_not_idle(self):
        s = self.start("--idle", "1", *LONG_FLAGS)
        n, took = 1000, 0
        while took < 2 and n <= 64000:  # tokens that take longer than the time of the idle
            n *= 2
            r = s.raw()
            began = time.monotonic()
            r.request("POST", GEN, dict(LONG, max_tokens=n))
            status, _, body = r.response()
            took = time.monotonic() - began
            self.assertEqual((status, json.loads(body)["usage"]["completion_tokens"]), (200, n))
            r.close()
        self.assertGreater(took, 1)
        s.close(self)

    def test_ping(self):
        s = self.start("--ping", "1", "--parallel", "1", *LONG_FLAGS)
        first = s.raw()
        first.request("POST", GEN, dict(LONG, stream=True))
        self.assertEqual(first.head()[0], 200)
        first.chunk()
        waiting = s.raw()  # in the queue
        waiting.request("POST", GEN, dict(SMALL, stream=True))
        status, h = waiting.head()
        self.assertEqual((status, h["content-type"].split(";")[0]), (200, "text/event-stream"))
        for _ in range(2):
            self.assertEqual(waiting.chunk(), b": ping\n\n")
        first.close()
        rest = b"".join(iter(waiting.chunk, b""))
        self.assertEqual(events(rest)[-1], "[DONE]")
        waiting.close()
        s.close(self)

    def test_crowd(self):
        s = self.start("--connections", "16", "--idle", "600")
        crowd = [s.raw() for _ in range(40)]
        self.assertEqual(s.get("/health").status, 200)
        for r in crowd:
            r.close()
        s.close(self)


class Sockets(Case):
    flags = None

    def unix_get(self, path, target="/health"):
        c = socket.socket(socket.AF_UNIX)
        c.connect(path)
        r = Raw(c)
        r.request("GET", target)
        got = r.response()
        r.close()
        return got

    def test_unix(self):
        path = self.path("s.sock")
        s = self.start("--unix", path)
        self.assertEqual(self.unix_get(path)[0], 200)
        self.assertEqual(s.url, "unix:" + path)
        r = common.run(self, self.hayate, "serve", common.MODEL, "--unix", path)
        self.assertEqual(r.returncode, 1)
        self.assertIn("in use", r.stderr)
        self.assertEqual(self.unix_get(path)[0], 200)  # still ours
        s.run.kill()
        s.wait()
        self.assertTrue(os.path.exists(path))  # left behind; the next one takes it over
        s = self.start("--unix", path)
        self.assertEqual(self.unix_get(path)[0], 200)
        s.close(self)
        self.assertFalse(os.path.exists(path))

    def test_not_over_a_file(self):
        path = self.path("file")
        with open(path, "w", encoding="utf-8") as f:
            f.write("precious")
        r = common.run(self, self.hayate, "serve", common.MODEL, "--unix", path)
        self.assertEqual(r.returncode, 1)
        with open(path, encoding="utf-8") as f:
            self.assertEqual(f.read(), "precious")

    def test_ipv6(self):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            print("skipped: no IPv6 here")
            return
        s = self.start("--host", "::1")
        self.assertTrue(s.url.startswith("http://[::1]:"))
        self.assertEqual(s.get("/health").status, 200)
        s.close(self)

    def certificate(self, name, cert, key):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                        "-subj", "/CN=" + name, "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)

    def test_tls(self):
        if not shutil.which("openssl"):
            print("skipped: no openssl here to make a certificate")
            return
        cert, key = self.path("cert.pem"), self.path("key.pem")
        self.certificate("localhost", cert, key)
        s = self.start("--tls-cert", cert, "--tls-key", key, *LONG_FLAGS)
        self.assertTrue(s.url.startswith("https://"))
        context = ssl.create_default_context(cafile=cert)

        def connect():
            return context.wrap_socket(socket.create_connection((s.host, s.port), PATIENCE), server_hostname="localhost")

        def get(path):
            r = Raw(connect())
            r.request("GET", path)
            got = r.response()
            r.close()
            return got
        until("the model", lambda: get("/ready")[0] == 200)
        r = Raw(connect())
        for _ in range(2):
            r.request("POST", GEN, dict(SMALL, stream=True, max_tokens=40))
            status, _, body = r.response()
            self.assertEqual((status, events(body)[-1]), (200, "[DONE]"))
        r.request("POST", GEN, dict(LONG, stream=True))
        _, h = r.head()
        r.close()
        until("the cancel", lambda: json.loads(get("/v1/requests/" + h["x-request-id"])[2]).get("state") == "cancelled")
        plain = s.raw()
        plain.request("GET", "/health")
        self.assertTrue(plain.ended())
        plain.close()
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with self.assertRaises((ssl.SSLError, OSError)):
            old.wrap_socket(socket.create_connection((s.host, s.port), PATIENCE))
        s.close(self)

    def test_tls_renewed(self):
        if not shutil.which("openssl"):
            print("skipped: no openssl here to make a certificate")
            return
        cert, key, new = self.path("cert.pem"), self.path("key.pem"), (self.path("new.pem"), self.path("new.key"))
        self.certificate("first", cert, key)
        self.certificate("second", *new)
        s = self.start("--tls-cert", cert, "--tls-key", key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

        def connect():
            return context.wrap_socket(socket.create_connection((s.host, s.port), PATIENCE))

        def shown():
            with connect() as c:
                return c.getpeercert(binary_form=True)

        def file(path):
            with open(path, encoding="utf-8") as f:
                return ssl.PEM_cert_to_DER_cert(f.read())
        first, second = file(cert), file(new[0])
        self.assertEqual(shown(), first)
        old = Raw(connect())  # one that stays open
        old.request("GET", "/health")
        self.assertEqual(old.response()[0], 200)
        for broken in ("nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
            n = s.log().count("not reloaded")
            with open(cert, "w", encoding="utf-8") as f:
                f.write(broken)
            s.signal(signal.SIGHUP)
            until("the complaint", lambda: s.log().count("not reloaded") > n)
            self.assertIn("TLS: certificate " + cert, s.log())
            self.assertEqual(shown(), first)
        n = s.log().count("not reloaded")
        shutil.copy(new[0], cert)  # the certificate alone: no pair
        s.signal(signal.SIGHUP)
        until("the complaint", lambda: s.log().count("not reloaded") > n)
        self.assertEqual(shown(), first)
        shutil.copy(new[1], key)
        s.signal(signal.SIGHUP)
        until("the new certificate", lambda: shown() == second)
        old.request("GET", "/health")  # its connection goes on
        self.assertEqual(old.response()[0], 200)
        old.close()
        os.remove(key)
        s.signal(signal.SIGHUP)
        s.wait_log("not reloaded.*" + key)
        self.assertEqual(shown(), second)
        s.close(self)


class Start(Case):
    flags = None

    def bad(self, *args, words=(), code=1):
        r = common.run(self, self.hayate, "serve", *args)
        self.assertEqual(r.returncode, code, r.stderr)
        for w in words:
            self.assertIn(w, r.stderr)

    def test_wrong(self):
        m = common.MODEL
        self.bad(m, "--host", "999.1.1.1", words=["999.1.1.1"])
        self.bad(m, "--port", "70000", words=["65535"], code=2)
        self.bad(m, "--tls-cert", m, words=["TLS"])
        self.bad(m, "--port", "0", "--tls-cert", m, "--tls-key", m)
        self.bad(m, "--api-keys", "/nonexistent/keys", words=["/nonexistent/keys"])
        self.bad(m, "--log", "loud", words=["loud"], code=2)
        self.bad(m, "--body-max", "much", words=["much"], code=2)
        self.bad(m, "--config", "/nonexistent/config", words=["/nonexistent/config"], code=2)
        self.bad(code=2)
        path = self.path("keys")
        for text, word in (("", "no key"), ("alice\n", "line 1"), ("# x\nalice sha256:00:11\n", "line 2"),
                           ("a sha256:00:%s much=1\n" % ("0" * 64), "much"), ("a sha256:00:%s requests=x\n" % ("0" * 64), "requests")):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            self.bad(m, "--port", "0", "--api-keys", path, words=[word, path])

    def test_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            self.bad(common.MODEL, "--port", str(other.getsockname()[1]), words=["in use", str(other.getsockname()[1])])

    def test_no_model(self):
        self.bad("/nonexistent/model.gguf", "--port", "0", words=["/nonexistent/model.gguf"])

    def test_environment(self):
        s = self.start(env={"HAYATE_ALIAS": "from-env", "HAYATE_CORS": "*"})
        r = s.get("/v1/models")
        self.assertEqual((r.json()["data"][0]["id"], r.getheader("access-control-allow-origin")), ("from-env", "*"))
        s.close(self)

    def test_printed_line(self):
        s = self.start()
        self.assertIn("hayate: listening on %s\n" % s.url, s.log())
        s.close(self)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    Case.hayate = os.path.abspath(sys.argv.pop(1))
    unittest.main()
