"""hayate pull against a local server: whole files, resuming, redirects, checksums, faults.

usage: test_pull.py HAYATE"""
import hashlib
import http.server
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HAYATE = None
BODY = b"".join(hashlib.sha256(b"%d" % i).digest() for i in range(40000))  # 1.28 MB
OTHER = bytes(reversed(BODY))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, code, headers=(), body=b""):
        self.send_response(code)
        for k, v in headers:
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def ranged(self, body, tag, honour=True):
        """Range and If-Range as RFC 9110 has them; returns (code, headers, bytes)."""
        r, cond = self.headers.get("Range"), self.headers.get("If-Range")
        head = [("ETag", tag)] if tag else []
        if not r or not honour or (cond and cond != tag):
            return 200, head, body
        first = int(r.split("=")[1].split("-")[0])
        if first >= len(body):
            return 416, head + [("Content-Range", "bytes */%d" % len(body))], b""
        part = body[first:]
        return 206, head + [("Content-Range", "bytes %d-%d/%d" % (first, len(body) - 1, len(body)))], part

    def do_GET(self):
        s = self.server
        s.seen.append((self.path, dict(self.headers)))
        name = self.path.split("?")[0]
        if name == "/redirect":
            return self.answer(302, [("Location", "/model.gguf")])
        if name == "/loop":
            return self.answer(302, [("Location", "/loop")])
        if name == "/to-file":
            return self.answer(302, [("Location", "file:///etc/hostname")])
        if name == "/empty":
            return self.answer(200)
        if name == "/denied":
            return self.answer(403)
        if name == "/busy":
            return self.answer(503)
        if name == "/changed":
            return self.answer(*self.ranged(OTHER, '"v2"'))
        if name == "/noranges":
            return self.answer(*self.ranged(BODY, '"v1"', honour=False))
        if name == "/untagged":
            return self.answer(*self.ranged(BODY, None))
        if name == "/wrongrange":
            if self.headers.get("Range") and len(s.seen) < 3:
                return self.answer(206, [("Content-Range", "bytes 0-%d/%d" % (len(BODY) - 1, len(BODY)))], BODY)
            return self.answer(200, [], BODY)
        if name in ("/short", "/shortonce", "/stuck"):
            code, head, part = self.ranged(BODY, '"v1"')
            whole = name == "/shortonce" and len(s.seen) > 1
            self.send_response(code)
            for k, v in head + [("Content-Length", str(len(part)))]:
                self.send_header(k, v)
            self.end_headers()
            self.wfile.write(part if whole else part[:100000])
            self.wfile.flush()
            if name == "/stuck":
                s.stuck.wait()
            if not whole:
                self.close_connection = True
            return None
        if name in ("/model.gguf", "/owner/repo/resolve/main/sub/model.gguf"):
            return self.answer(*self.ranged(BODY, '"v1"'))
        return self.answer(404)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients break off on purpose


def limit_file_size():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000))


class Pull(unittest.TestCase):
    def setUp(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.seen, self.server.stuck = [], threading.Event()
        self.base = "http://127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.dir = tempfile.TemporaryDirectory()
        self.out = os.path.join(self.dir.name, "m.gguf")
        self.env = dict(os.environ, HF_ENDPOINT=self.base + "/", no_proxy="127.0.0.1", HAYATE_CONFIG="")

    def tearDown(self):
        self.server.stuck.set()
        self.server.shutdown()
        self.server.server_close()
        self.dir.cleanup()

    def run_pull(self, source, *args, out=True, **kw):
        cmd = [HAYATE, "pull", source if ":" in source else self.base + source, *args]
        if out:
            cmd += ["-o", self.out]
        return subprocess.run(cmd, capture_output=True, text=True, timeout=600, env=self.env, cwd=self.dir.name, **kw)

    def files(self):
        return sorted(os.listdir(self.dir.name))

    def put_part(self, data, tag=None):
        with open(self.out + ".part", "wb") as f:
            f.write(data)
        if tag:
            with open(self.out + ".part.tag", "w") as f:
                f.write(tag)

    def expect(self, r, body=BODY):
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(self.out, "rb") as f:
            self.assertEqual(f.read(), body)
        self.assertEqual(self.files(), ["m.gguf"])

    def expect_failure(self, r, *words, kept=None):
        self.assertEqual(r.returncode, 1, r.stderr)
        for w in words:
            self.assertIn(w, r.stderr)
        self.assertNotIn("m.gguf", self.files())
        part = self.out + ".part"
        self.assertEqual(os.path.getsize(part) if os.path.exists(part) else None, kept)

    def test_whole(self):
        r = self.run_pull("/model.gguf")
        self.expect(r)
        self.assertEqual(r.stdout.strip(), self.out)
        self.assertNotIn("Range", self.server.seen[0][1])

    def test_name_from_address(self):
        r = self.run_pull("/model.gguf?download=true", "--json", out=False)
        self.assertEqual((r.returncode, json.loads(r.stdout)), (0, {"file": "model.gguf"}), r.stderr)
        self.assertEqual(self.files(), ["model.gguf"])

    def test_into_folder(self):
        os.mkdir(self.out)
        r = self.run_pull("/model.gguf")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(os.path.getsize(os.path.join(self.out, "model.gguf")), len(BODY))

    def test_hub(self):
        self.expect(self.run_pull("hf:owner/repo/sub/model.gguf"))
        self.assertEqual(self.server.seen[0][0], "/owner/repo/resolve/main/sub/model.gguf")

    def test_bad_sources(self):
        for source in ("ftp://127.0.0.1/x", "file:///etc/hostname", "hf:owner/repo", "hf:", "hf:a//b", "hf:../a/b"):
            self.expect_failure(self.run_pull(source), source)
        self.expect_failure(self.run_pull("/", out=False), "names no file")

    def test_redirect(self):
        self.expect(self.run_pull("/redirect"))

    def test_bad_redirects(self):
        self.expect_failure(self.run_pull("/loop"), "redirects")
        self.expect_failure(self.run_pull("/to-file"), "file")

    def test_resume(self):
        for tag in (None, '"v1"\n%d\n' % len(BODY), "\n%d\n" % len(BODY)):
            self.put_part(BODY[:500000], tag)
            self.server.seen.clear()
            self.expect(self.run_pull("/model.gguf", "--sha256", hashlib.sha256(BODY).hexdigest()))
            self.assertEqual(self.server.seen[0][1]["Range"], "bytes=500000-")
            os.remove(self.out)

    def test_resume_without_validator(self):
        self.put_part(BODY[:1], "\n%d\n" % len(BODY))
        self.expect(self.run_pull("/untagged"))
        os.remove(self.out)
        self.put_part(OTHER[:1], "\n%d\n" % (len(BODY) + 5))  # another size: another file
        self.expect(self.run_pull("/untagged"))

    def test_resume_of_changed_file(self):
        self.put_part(BODY[:500000], '"v1"\n%d\n' % len(BODY))
        self.expect(self.run_pull("/changed"), OTHER)

    def test_resume_without_ranges(self):
        self.put_part(BODY[:500000], '"v1"\n%d\n' % len(BODY))
        self.expect(self.run_pull("/noranges", "--sha256", hashlib.sha256(BODY).hexdigest().upper()))

    def test_resume_of_whole_part(self):
        self.put_part(BODY)
        self.expect(self.run_pull("/model.gguf"))

    def test_resume_beyond_end(self):
        self.put_part(BODY + b"more")
        self.expect(self.run_pull("/model.gguf"))

    def test_wrong_range(self):
        self.put_part(BODY[:1000])
        self.expect(self.run_pull("/wrongrange"))

    def test_empty(self):
        self.expect(self.run_pull("/empty"), b"")
        os.remove(self.out)
        self.put_part(b"old")
        r = self.run_pull("/empty")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(os.path.getsize(self.out), 0)

    def test_http_errors(self):
        self.expect_failure(self.run_pull("/nothing"), "404", "no such file")
        self.expect_failure(self.run_pull("/denied"), "403")
        self.expect_failure(self.run_pull("/busy"), "503")
        self.put_part(b"abc")
        self.expect_failure(self.run_pull("/busy"), "503", kept=3)

    def test_short_once_is_taken_up_again(self):
        self.expect(self.run_pull("/shortonce", "--sha256", hashlib.sha256(BODY).hexdigest()))

    def test_short(self):
        r = self.run_pull("/short")
        self.expect_failure(r, "kept", kept=500000)  # five tries of 100000 bytes
        self.expect(self.run_pull("/model.gguf"))

    def test_checksum(self):
        self.expect_failure(self.run_pull("/model.gguf", "--sha256", "0" * 64), "sha256", "0" * 64)
        self.expect_failure(self.run_pull("/model.gguf", "--sha256", "12"), "64 hex digits")
        self.assertEqual(self.files(), [])

    def test_no_server(self):
        self.expect_failure(self.run_pull("http://127.0.0.1:1/x"), "127.0.0.1")

    def test_disk_full(self):
        self.expect_failure(self.run_pull("/model.gguf", preexec_fn=limit_file_size), "cannot write", kept=200000)
        self.expect(self.run_pull("/model.gguf"))

    def test_no_folder(self):
        r = self.run_pull("/model.gguf", "-o", os.path.join(self.dir.name, "no", "x"), out=False)
        self.assertEqual(r.returncode, 1)
        self.assertIn("cannot open", r.stderr)

    def test_interrupt_and_two_at_once(self):
        cmd = [HAYATE, "pull", self.base + "/stuck", "-o", self.out]
        p = subprocess.Popen(cmd, env=self.env, stderr=subprocess.PIPE, text=True)
        part = self.out + ".part"
        end = time.monotonic() + 50  # pull gives a silent server a minute
        while not (os.path.exists(part) and os.path.getsize(part) == 100000):
            self.assertLess(time.monotonic(), end, "nothing arrives")
            time.sleep(0.02)
        r = self.run_pull("/model.gguf")
        self.assertEqual(r.returncode, 1)
        self.assertIn("another download", r.stderr)
        p.send_signal(signal.SIGINT)
        self.assertIn("cancelled after 100000 bytes", p.communicate(timeout=600)[1])
        self.assertEqual(p.returncode, 130)
        self.expect(self.run_pull("/model.gguf"))


if __name__ == "__main__":
    HAYATE = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
