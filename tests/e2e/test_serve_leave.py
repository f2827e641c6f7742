"""Clients that close only their sending side get their answer; those that leave cost at most a step.

usage: test_serve_leave.py HAYATE [TEST...]"""
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import unittest

from serve_common import LONG, LONG_FLAGS, PATIENCE, Case, Raw, events, until

GEN = "/v1/completions"
ASK = {"prompt": "a", "max_tokens": 3000, "ignore_eos": True, "temperature": 0}


def final_head(r):
    """The answer's head, and how many interim ones came before it."""
    n = 0
    while True:
        status, h = r.head()
        if status != 100:
            return status, h, n
        n += 1


def rest(r, h):
    if h.get("transfer-encoding") == "chunked":
        return b"".join(iter(r.chunk, b""))
    return r.f.read(int(h["content-length"])) if "content-length" in h else r.f.read()


class Leaving(Case):
    flags = LONG_FLAGS + ("--parallel", "2", "--ping", "1")

    def text(self, body):
        return json.loads(body)["choices"][0]["text"]

    def whole(self):
        r = self.server.post(GEN, ASK)
        self.assertEqual(r.status, 200)
        return self.text(r.body)

    def begin(self, body, connect=None):
        r = connect() if connect else self.server.raw()
        r.request("POST", GEN, body)
        return r

    def gone(self):
        return self.server.log().count("gone=1")

    def idle(self):
        def check():
            n = self.server.get("/stats").json()["number"]
            return n["vllm:num_requests_running"] == 0 and n["vllm:num_requests_waiting"] == 0
        until("the engine to be idle", check)

    def test_half_closed_gets_its_answer(self):
        want, before = self.whole(), self.gone()
        r = self.begin(ASK)
        r.s.shutdown(socket.SHUT_WR)
        status, h, n = final_head(r)
        self.assertEqual((status, self.text(rest(r, h))), (200, want))
        self.assertTrue(r.ended())
        r.close()
        r = self.begin(dict(ASK, stream=True))
        r.s.shutdown(socket.SHUT_WR)
        status, h, n = final_head(r)
        data = events(rest(r, h))
        self.assertEqual((status, data.pop()), (200, "[DONE]"))
        self.assertEqual("".join(c["choices"][0]["text"] for c in map(json.loads, data) if c["choices"]), want)
        r.close()
        r = self.begin(dict(ASK, stream=True))  # within the stream
        status, h, n = final_head(r)
        first = r.chunk()
        r.s.shutdown(socket.SHUT_WR)
        self.assertEqual(events(first + rest(r, h))[-1], "[DONE]")
        r.close()
        self.assertEqual(self.gone(), before)

    def test_half_closed_in_the_queue(self):
        busy = [self.begin(dict(LONG, stream=True)) for _ in range(2)]
        until("both to run", lambda: self.server.get("/stats").json()["number"]["vllm:num_requests_running"] == 2)
        r = self.begin(dict(ASK, max_tokens=3))
        r.s.shutdown(socket.SHUT_WR)
        self.assertEqual(r.head()[0], 100)  # we ask whether it is there; it is, and takes no notice
        for b in busy:
            b.close()
        self.assertEqual(final_head(r)[0], 200)
        r.close()
        self.idle()

    def test_a_tool_that_half_closes(self):
        nc = shutil.which("nc")
        if not nc or b"-N" not in subprocess.run([nc, "-h"], capture_output=True, check=False).stderr:
            print("skipped: no nc with -N here")
            return
        body = json.dumps(ASK)
        text = "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (GEN, len(body), body)
        r = subprocess.run([nc, "-N", self.server.host, str(self.server.port)], input=text.encode(), capture_output=True,
                           timeout=PATIENCE, check=True)
        self.assertIn(b"HTTP/1.1 200 OK", r.stdout)
        self.assertIn(b'"finish_reason":"length"', r.stdout)

    def test_closed_after_half_closed(self):
        before = self.gone()
        for stream in (False, True):
            r = self.begin(dict(LONG, stream=stream))
            r.s.shutdown(socket.SHUT_WR)
            if stream:
                final_head(r)
            else:
                r.head()
            r.close()  # says nothing more to us: the next thing that we send finds it out
        until("both to be gone", lambda: self.gone() >= before + 2)
        self.idle()

    def test_http_1_0_has_left(self):
        before = self.gone()
        body = json.dumps(LONG)
        r = self.server.raw()
        r.send("POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (GEN, len(body), body))
        r.s.shutdown(socket.SHUT_WR)
        until("it to be gone", lambda: self.gone() > before)
        r.close()
        self.idle()

    def test_at_most_one_step_after_leaving(self):
        def counted():
            text = self.server.get("/metrics").body.decode()
            return [float(next(line for line in text.splitlines() if line.startswith(name)).split()[-1])
                    for name in ("hayate_requests_cancelled_total", "hayate_tokens_after_cancel_total")]
        cancelled, tokens = counted()
        for i in range(12):
            r = self.begin(dict(LONG, stream=i % 2 == 0))
            if i % 2 == 0:
                r.head()
                r.chunk()
            else:
                until("it to run", lambda: self.server.get("/stats").json()["number"]["vllm:num_requests_running"] == 1)
            r.close()
            self.idle()
        now = counted()
        self.assertEqual(now[0], cancelled + 12)
        self.assertLessEqual(now[1], tokens + 12)

    def test_unix(self):
        path = self.path("s.sock")
        s = self.start("--unix", path, *LONG_FLAGS)

        def connect():
            c = socket.socket(socket.AF_UNIX)
            c.settimeout(PATIENCE)
            c.connect(path)
            return Raw(c)

        def ready():
            r = connect()
            r.request("GET", "/ready")
            status = r.response()[0]
            r.close()
            return status == 200
        until("the model", ready)
        r = self.begin(ASK, connect)
        r.s.shutdown(socket.SHUT_WR)
        self.assertEqual(r.response()[0], 200)  # nobody needs to ask there
        r.close()

        def running():
            c = connect()
            c.request("GET", "/stats")
            number = json.loads(c.response()[2])["number"]
            c.close()
            return number["vllm:num_requests_running"] == 1
        r = self.begin(LONG, connect)
        until("the request to run: who leaves before it is read is not seen at all", running)
        r.close()
        s.wait_log("gone=1")
        s.close(self)

    def test_tls(self):
        if not shutil.which("openssl"):
            print("skipped: no openssl here to make a certificate")
            return
        cert, key = self.path("cert.pem"), self.path("key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                        "-subj", "/CN=localhost"], check=True, capture_output=True)
        s = self.start("--tls-cert", cert, "--tls-key", key, *LONG_FLAGS)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

        def connect():
            return Raw(context.wrap_socket(socket.create_connection((s.host, s.port), PATIENCE)))

        def get(path):
            r = connect()
            r.request("GET", path)
            got = r.response()
            r.close()
            return got
        until("the model", lambda: get("/ready")[0] == 200)
        for stream in (False, True):
            c = socket.create_connection((s.host, s.port), PATIENCE)
            below = socket.socket(fileno=os.dup(c.fileno()))
            r = Raw(context.wrap_socket(c))
            r.request("POST", GEN, dict(LONG, stream=stream))
            until("it to run", lambda: json.loads(get("/stats")[2])["number"]["vllm:num_requests_running"] == 1)
            below.shutdown(socket.SHUT_WR)  # the sending side alone: without a notice of TLS it is a broken connection
            below.close()
            until("it to be gone", lambda n=1 + stream: s.log().count("gone=1") == n)
            r.close()
        s.close(self)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    Case.hayate = os.path.abspath(sys.argv.pop(1))
    unittest.main()
