"""A server under test, and clients that speak HTTP by hand. Standard library only."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import common

PATIENCE = common.LONG  # seconds until a wait is a failure; nothing is asserted about shorter times
LONG = {"prompt": "a", "max_tokens": 90000, "ignore_eos": True, "temperature": 1, "seed": 1}  # minutes of work
LONG_FLAGS = ("--ctx", "100000", "--kv-tokens", "140000")


def until(what, check):
    """check()'s first true answer."""
    end = time.monotonic() + PATIENCE
    while True:
        r = check()
        if r:
            return r
        if time.monotonic() > end:
            raise AssertionError("waited too long for " + what)
        time.sleep(0.02)


class Server:
    def __init__(self, hayate, *flags, model=common.MODEL, wait=True, env=None, **popen):
        self.stopping = False
        self.dir = tempfile.TemporaryDirectory()
        self.url_file = os.path.join(self.dir.name, "url")
        self.log_file = os.path.join(self.dir.name, "log")
        log = open(self.log_file, "wb")
        args = [hayate, "serve", model, "--port-file", self.url_file, *map(str, flags)]
        if "--unix" not in flags and "--port" not in flags:
            args += ["--port", "0"]
        self.run = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=common.clean_env(**(env or {})),
                                    **popen)
        log.close()
        until("the server to listen", lambda: os.path.exists(self.url_file) or self.run.poll() is not None)
        if self.run.poll() is not None:
            raise AssertionError("the server ended: " + self.log())
        with open(self.url_file, encoding="utf-8") as f:
            self.url = f.read().strip()
        m = re.match(r"(https?)://(.*):(\d+)$", self.url)
        self.host, self.port = (m[2].strip("[]"), int(m[3])) if m else (None, None)
        if wait and self.port and m[1] == "http":
            self.wait_ready()

    def wait_ready(self):
        def ready():
            try:
                return self.get("/ready").status == 200
            except ConnectionError:  # with --idle, a test that stood still before it had asked
                if self.run.poll() is not None:
                    raise
                return False
        until("the model", ready)

    def log(self):
        with open(self.log_file, encoding="utf-8", errors="replace") as f:
            return f.read()

    def wait_log(self, pattern):
        return until("a log line like " + pattern, lambda: re.search(pattern, self.log()))

    def signal(self, which):
        self.stopping = self.stopping or which in (signal.SIGTERM, signal.SIGINT)
        self.run.send_signal(which)

    def wait(self):
        return self.run.wait(timeout=PATIENCE)

    def close(self, test, code=0):
        """Ends it as a user would, and looks at what it left."""
        if self.run.poll() is None and not self.stopping:  # a second one would end it at once
            self.signal(signal.SIGTERM)
        got = self.wait()
        text = self.log()
        self.dir.cleanup()
        for word in common.FORBIDDEN:
            test.assertNotIn(word, text)
        if code is not None:
            test.assertEqual(got, code, text[-2000:])
        return text

    # ---- clients -------------------------------------------------------------------------------

    def connect(self, timeout=PATIENCE):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None):
        """One request on a connection of its own: the response, with .body and .json()."""
        c = self.connect()
        try:
            return ask(c, method, path, body, headers)
        finally:
            c.close()

    def get(self, path, **headers):
        return self.ask("GET", path, headers=headers)

    def post(self, path, body, headers=None):
        return self.ask("POST", path, body, headers)

    def raw(self, timeout=PATIENCE):
        return Raw(socket.create_connection((self.host, self.port), timeout))


def ask(connection, method, path, body=None, headers=None):
    h = dict(headers or {})
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
        h.setdefault("Content-Type", "application/json")
    connection.request(method, path, body, h)
    r = connection.getresponse()
    r.body = r.read()
    r.json = lambda: json.loads(r.body)
    return r


class Raw:
    """Bytes in, bytes out."""

    def __init__(self, s):
        self.s, self.f = s, s.makefile("rb")

    def send(self, b):
        self.s.sendall(b if isinstance(b, bytes) else b.encode())

    def request(self, method, path, body=b"", *headers):
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        head = ["%s %s HTTP/1.1" % (method, path), "Host: x", *headers]
        if body:
            head += ["Content-Type: application/json", "Content-Length: %d" % len(body)]
        self.send("\r\n".join(head).encode() + b"\r\n\r\n" + body)

    def head(self):
        line = self.f.readline()
        if not line:
            return None, {}
        h = {}
        while True:
            text = self.f.readline().strip()
            if not text:
                return int(line.split()[1]), h
            k, _, v = text.partition(b":")
            h[k.decode().lower()] = v.strip().decode()

    def chunk(self):
        """One chunk of a chunked body; b"" for the last."""
        n = int(self.f.readline().split(b";")[0], 16)
        data = self.f.read(n)
        self.f.readline()
        return data

    def response(self):
        status, h = self.head()
        if status is None:
            return None, {}, b""
        if h.get("transfer-encoding") == "chunked":
            return status, h, b"".join(iter(self.chunk, b""))
        return status, h, self.f.read(int(h.get("content-length", 0)))

    def ended(self):
        """True once the server has closed."""
        try:
            while self.f.read(65536):
                pass
        except ConnectionError:
            pass
        return True

    def close(self):
        self.f.close()
        self.s.close()


def events(body):
    """The data of a stream's events."""
    out = []
    for frame in body.decode().split("\n\n"):
        for line in frame.split("\n"):
            if line.startswith("data: "):
                out.append(line[6:])
    return out


class Case(unittest.TestCase):
    """A server for the class (flags), a fresh one by start()."""
    hayate = None
    flags = ()
    server = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.hayate, *cls.flags) if cls.flags is not None else None

    @classmethod
    def tearDownClass(cls):
        if cls.server:
            cls.server.close(cls())

    def runTest(self):
        pass

    def start(self, *flags, **kw):
        s = Server(self.hayate, *flags, **kw)
        self.addCleanup(lambda: s.run.poll() is None and (s.run.kill(), s.run.wait()))
        return s

    def path(self, name):
        d = tempfile.TemporaryDirectory()
        self.addCleanup(d.cleanup)
        return os.path.join(d.name, name)

    def error(self, r, status, *words, code=None):
        """r is an error in OpenAI's shape."""
        self.assertEqual(r.status, status, r.body)
        self.assertEqual(r.getheader("content-type"), "application/json")
        e = r.json()["error"]
        self.assertEqual(sorted(e), ["code", "message", "param", "type"])
        for w in words:
            self.assertIn(w, e["message"])
        if code:
            self.assertEqual(e["code"], code)
        return e
