"""The HTTP side of `hayate serve`, as clients and strangers meet it.

usage: test_serve.py HAYATE [TEST...]"""
import json
import os
import re
import socket
import sys
import threading
import unittest

import common
from serve_common import Case, ask, events, until

GEN = "/v1/completions"
SMALL = {"prompt": "a", "max_tokens": 3, "ignore_eos": True, "temperature": 0}


class Facts(Case):
    def test_health_ready_version(self):
        self.assertEqual(self.server.get("/health").json(), {"status": "ok"})
        self.assertEqual(self.server.get("/ready").json(), {"status": "ready"})
        self.assertRegex(self.server.get("/version").json()["version"], r"^\d+\.\d+\.\d+$")

    def test_models(self):
        d = self.server.get("/v1/models").json()
        self.assertEqual(d["object"], "list")
        m, = d["data"]
        self.assertEqual((m["id"], m["object"], m["owned_by"]), ("model-bf16", "model", "hayate"))
        self.assertIsInstance(m["created"], int)
        self.assertEqual(self.server.get("/v1/models/model-bf16").json(), m)
        self.error(self.server.get("/v1/models/no-such-model"), 404, "no-such-model", code="model_not_found")
        self.assertEqual(self.server.get("/v1/models?x=1&y").status, 200)

    def test_model_of_anthropic(self):
        r = self.server.get("/v1/models/none", **{"anthropic-version": "2023-06-01"})
        self.assertEqual((r.status, r.json()["type"], r.json()["error"]["type"]), (404, "error", "not_found_error"))
        self.assertEqual(r.json()["request_id"], r.getheader("request-id"))

    def test_alias(self):
        s = self.start("--alias", "org/name:tag é")
        self.assertEqual(s.get("/v1/models").json()["data"][0]["id"], "org/name:tag é")
        for path in ("/v1/models/org/name:tag%20%C3%A9", "/v1/models/org%2Fname%3Atag%20%c3%a9"):
            self.assertEqual(s.get(path).json()["id"], "org/name:tag é")
        s.close(self)

    def test_headers(self):
        ids = set()
        for path in ("/health", "/v1/models", "/v1/nope", "/v1/requests/none"):
            r = self.server.get(path)
            self.assertEqual(r.getheader("x-content-type-options"), "nosniff")
            self.assertEqual(r.getheader("referrer-policy"), "no-referrer")
            self.assertEqual(r.getheader("cache-control"), "no-store")
            self.assertIn("frame-ancestors 'none'", r.getheader("content-security-policy"))
            self.assertIsNone(r.getheader("access-control-allow-origin"))
            self.assertRegex(r.getheader("x-request-id"), r"^req-[0-9a-f]{24}$")
            ids.add(r.getheader("x-request-id"))
        self.assertEqual(len(ids), 4)

    def test_page(self):
        r = self.server.get("/")
        self.assertEqual(r.status, 200)
        self.assertIn("script-src 'self'", r.getheader("content-security-policy"))
        s = self.start("--no-page")
        self.error(s.get("/"), 404)
        s.close(self)

    def test_head_of_every_get_route(self):
        for path in ("/health", "/ready", "/version", "/v1/models", "/v1/models/model-bf16", "/", "/metrics", "/v1/nope"):
            want, got = self.server.get(path), self.server.ask("HEAD", path)
            self.assertEqual((got.status, got.body), (want.status, b""), path)
            self.assertEqual(got.getheader("content-type"), want.getheader("content-type"))

    def test_unknown(self):
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"):
            self.error(self.server.ask(method, "/v1/nope", b"{}" if method == "POST" else None), 404, "/v1/nope")
        self.error(self.server.get("/v1/models/"), 404)
        self.error(self.server.get("//v1/models"), 404)

    def test_other_methods(self):
        r = self.server.get(GEN)
        self.error(r, 405)
        self.assertEqual(r.getheader("allow"), "POST, OPTIONS")
        r = self.server.ask("DELETE", "/v1/models")
        self.error(r, 405)
        self.assertEqual(r.getheader("allow"), "GET, HEAD, OPTIONS")
        r = self.server.ask("OPTIONS", "/v1/requests/x")
        self.assertEqual((r.status, r.getheader("allow")), (204, "GET, HEAD, DELETE, OPTIONS"))

    def test_paths(self):
        for path in ("/%00", "/%ff", "/%zz", "/%4", "/v1/models/%00", "/v1/models/%c3%28"):
            self.error(self.server.get(path), 400)
        for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/assets/../../../etc/passwd", "/assets/%2fetc%2fpasswd",
                     "/assets/..%2f..%2f..%2fetc%2fpasswd"):
            self.error(self.server.get(path), 404)
        self.assertEqual(self.server.get("http://elsewhere/health").status, 200)


class Http(Case):
    def test_keep_alive(self):
        r = self.server.raw()
        for _ in range(5):
            r.request("GET", "/v1/models")
            self.assertEqual(r.response()[0], 200)
        for _ in range(3):  # refused ones keep it too
            r.request("POST", "/v1/nope", b"{}")
            self.assertEqual(r.response()[0], 404)
            r.request("POST", GEN, b"{")
            self.assertEqual(r.response()[0], 400)
        r.close()

    def test_pipelined(self):
        r = self.server.raw()
        for body in (SMALL, dict(SMALL, max_tokens=2), SMALL):
            r.request("POST", GEN, body)
            r.request("GET", "/health")
        for _ in range(3):
            self.assertEqual(r.response()[0], 200)
            self.assertEqual(json.loads(r.response()[2]), {"status": "ok"})
        r.close()

    def test_in_small_pieces(self):
        r = self.server.raw()
        body = json.dumps(SMALL).encode()
        whole = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (GEN.encode(), len(body), body)
        r.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(whole)):
            r.send(whole[i:i + 1])
        self.assertEqual(r.response()[0], 200)
        r.close()

    def test_chunked_body(self):
        r = self.server.raw()
        body = json.dumps(SMALL).encode()
        r.send("POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % GEN)
        for i in range(0, len(body), 7):
            r.send(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]))
        r.send(b"0\r\n\r\n")
        self.assertEqual(r.response()[0], 200)
        r.close()

    def test_expect(self):
        r = self.server.raw()
        body = json.dumps(SMALL).encode()
        head = "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
        r.send(head % (GEN, len(body)))
        self.assertEqual(r.head()[0], 100)
        r.send(body)
        self.assertEqual(r.response()[0], 200)
        r.close()
        r = self.server.raw()  # refused before the body is sent
        r.send(head % (GEN, 10 ** 12))
        self.assertEqual(r.response()[0], 413)
        r.close()

    def test_http_1_0_and_close(self):
        for head in ("GET /v1/models HTTP/1.0\r\n\r\n", "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"):
            r = self.server.raw()
            r.send(head)
            self.assertEqual(r.response()[0], 200)
            self.assertTrue(r.ended())
            r.close()

    def test_http_1_0_stream(self):
        r = self.server.raw()
        body = json.dumps(dict(SMALL, stream=True)).encode()
        r.send(b"POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (GEN.encode(), len(body), body))
        status, h = r.head()
        self.assertEqual((status, h.get("transfer-encoding")), (200, None))
        self.assertEqual(events(r.f.read())[-1], "[DONE]")
        r.close()

    def test_junk(self):
        for junk in (b"\r\n\r\n", b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET  HTTP/1.1\r\n\r\n", bytes(range(256)) * 8,
                     b"\x16\x03\x01\x02\x00\x01\x00", b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n" % GEN.encode(),
                     b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n" % GEN.encode(),
                     b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n" % GEN.encode(),
                     b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" % GEN.encode(),
                     b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n" % GEN.encode(),
                     b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 300000 + b"\r\n\r\n",
                     b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 30000 + b"\r\n"):
            r = self.server.raw()
            try:
                r.send(junk)
                r.s.shutdown(socket.SHUT_WR)
                r.ended()
            except OSError:
                pass
            r.close()
            self.assertEqual(self.server.get("/health").status, 200, junk[:60])

    def test_two_lengths(self):
        r = self.server.raw()
        r.send("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % GEN)
        self.assertEqual(r.head()[0], 400)
        r.close()

    def test_body_beyond_the_limit(self):
        s = self.start("--body-max", "10K")
        big = b'{"prompt": "' + b"a" * 20000 + b'"}'
        self.error(s.post(GEN, big), 413, "10240", code="request_too_large")
        r = s.raw()
        r.send("POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % GEN)
        r.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(big), big))
        self.assertEqual(r.response()[0], 413)
        r.close()
        self.assertEqual(s.post(GEN, SMALL).status, 200)
        s.close(self)

    def test_a_body_nobody_reads(self):
        self.assertEqual(self.server.ask("GET", "/health", b"x" * 1000).status, 200)


class Json(Case):
    def test_bad_bodies(self):
        for body, line, column in ((b"", None, None), (b"{", 1, None), (b"[]", 1, 1), (b"null", 1, 1), (b"5", 1, 1), (b'"str"', 1, 1),
                                   (b"not json", 1, None), (b'{"a":1}x', 1, None), (b"{'model':'x'}", 1, None), (b"\xff\xfe", 1, 1),
                                   (b'{"model": NaN}', 1, None), (b"\x00", 1, 1), (b'{"a":\n  tru}', 2, None),
                                   (b'{"a": 1, "a": 2}', 1, None), (b'{"a": "caf\xe9"}', 1, 11), (b'{"a": "x\x00y"}', 1, 9),
                                   (b'{"a": "\\ud83d"}', 1, None), (b'{"a": "\\u0000"}', 1, None), (b'{"a": 1e999}', 1, None),
                                   (b'{"a": "\xed\xa0\x80"}', 1, 8), (b'{"a": "\xf4\x90\x80\x80"}', 1, 8), (b"{\"a\": \"\n\"}", 1, None)):
            e = self.error(self.server.post(GEN, body, {"Content-Type": "application/json"}), 400)
            m = re.search(r"line (\d+), column (\d+)", e["message"])
            if line:
                self.assertEqual(int(m[1]), line, (body, e))
            if column:
                self.assertEqual(int(m[2]), column, (body, e))

    def test_deep(self):
        for n in (201, 100000):
            for a, b in ((b"[", b"]"), (b'{"a":', b"}")):
                body = b'{"x":' + a * n + b"1" + b * n + b"}"
                self.error(self.server.post(GEN, body), 400, "200")
        self.error(self.server.post(GEN, b'{"x":' + b"[" * 1000000), 400)
        # brackets in strings do not nest
        r = self.server.post(GEN, json.dumps(dict(SMALL, user="[" * 500 + '"' + "{" * 500)).encode())
        self.assertEqual(r.status, 200, r.body)

    def test_content_types(self):
        body = json.dumps(SMALL).encode()
        for t in ("application/json", "application/json; charset=utf-8", "text/plain", "application/x-www-form-urlencoded"):
            self.assertEqual(self.server.post(GEN, body, {"Content-Type": t}).status, 200, t)
        self.error(self.server.post(GEN, body, {"Content-Type": "multipart/form-data; boundary=x"}), 415)

    def test_byte_order_mark(self):
        self.assertEqual(self.server.post(GEN, b"\xef\xbb\xbf" + json.dumps(SMALL).encode()).status, 200)


class Cors(Case):
    flags = ("--cors", "*")

    def test_preflight(self):
        r = self.server.ask("OPTIONS", GEN, headers={"Origin": "http://example.test", "Access-Control-Request-Method": "POST",
                                                     "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os"})
        self.assertEqual(r.status, 204)
        self.assertEqual(r.getheader("access-control-allow-origin"), "*")
        self.assertIn("POST", r.getheader("access-control-allow-methods"))
        self.assertEqual(r.getheader("access-control-allow-headers"), "authorization,content-type,x-stainless-os")
        r = self.server.ask("OPTIONS", GEN, headers={"Access-Control-Request-Headers": "a;b: <c>"})
        self.assertIn("authorization", r.getheader("access-control-allow-headers"))

    def test_everywhere(self):
        for r in (self.server.get("/health"), self.server.get("/nope"), self.server.post(GEN, b"{"), self.server.post(GEN, SMALL),
                  self.server.post(GEN, dict(SMALL, stream=True))):
            self.assertEqual(r.getheader("access-control-allow-origin"), "*", r.status)
            self.assertIn("x-request-id", r.getheader("access-control-expose-headers"))

    def test_one_origin(self):
        s = self.start("--cors", "https://a.example")
        r = s.get("/health", Origin="https://b.example")
        self.assertEqual((r.getheader("access-control-allow-origin"), r.getheader("vary")), ("https://a.example", "Origin"))
        s.close(self)

    def test_pages_of_other_sites(self):
        self.assertEqual(self.server.post(GEN, SMALL, {"Sec-Fetch-Site": "cross-site"}).status, 200)
        s = self.start()
        self.error(s.post(GEN, SMALL, {"Sec-Fetch-Site": "cross-site"}), 403)
        for site in ("same-origin", "none"):
            self.assertEqual(s.post(GEN, SMALL, {"Sec-Fetch-Site": site}).status, 200)
        s.close(self)


class Streams(Case):
    def test_equal_to_the_whole(self):
        whole = self.server.post(GEN, dict(SMALL, max_tokens=40)).json()["choices"][0]
        r = self.server.post(GEN, dict(SMALL, max_tokens=40, stream=True))
        self.assertEqual(r.status, 200)
        self.assertTrue(r.getheader("content-type").startswith("text/event-stream"))
        self.assertEqual(r.getheader("x-accel-buffering"), "no")
        data = events(r.body)
        self.assertEqual(data.pop(), "[DONE]")
        chunks = [json.loads(d) for d in data]
        text = "".join(c["choices"][0]["text"] for c in chunks if c["choices"])
        self.assertEqual(text, whole["text"])

    def test_keep_alive_after_a_stream(self):
        c = self.server.connect()
        for _ in range(4):
            r = ask(c, "POST", GEN, dict(SMALL, stream=True))
            self.assertEqual(events(r.body)[-1], "[DONE]")
            self.assertEqual(ask(c, "GET", "/health").status, 200)
        c.close()

    def test_errors_before_the_first_byte_are_plain(self):
        self.error(self.server.post(GEN, dict(SMALL, prompt="word " * 5000, stream=True)), 400, code="context_length_exceeded")

    def test_many_at_once(self):
        want = {i: self.server.post(GEN, dict(SMALL, prompt="n %d" % i, max_tokens=20)).json()["choices"][0]["text"] for i in range(40)}
        got = {}

        def one(i):
            r = self.server.post(GEN, dict(SMALL, prompt="n %d" % i, max_tokens=20, stream=bool(i % 2)))
            if i % 2:
                got[i] = "".join(c["text"] for d in events(r.body)[:-1] for c in json.loads(d)["choices"])
            else:
                got[i] = r.json()["choices"][0]["text"]

        threads = [threading.Thread(target=one, args=(i,)) for i in want]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(got, want)

    def test_a_slow_reader_stops_nobody(self):
        slow = [self.server.raw() for _ in range(4)]
        for r in slow:
            r.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            r.request("POST", GEN, dict(SMALL, max_tokens=400, stream=True, logprobs=5))
        for _ in range(5):
            self.assertEqual(self.server.post(GEN, SMALL).status, 200)
        for r in slow:  # and lose nothing
            status, _, body = r.response()
            self.assertEqual((status, events(body)[-1]), (200, "[DONE]"))
            r.close()


class Log(Case):
    flags = None

    def test_lines(self):
        s = self.start()
        secret = "zebra crossing prompt"
        r = s.post(GEN, dict(SMALL, prompt=secret))
        s.get("/v1/nope?token=secret-query")
        text = s.close(self)
        line = re.search(r"serve: request id=%s .*" % r.getheader("x-request-id"), text)[0]
        for word in ("method=POST", "path=" + GEN, "status=200", "output=3", "finish=length"):
            self.assertIn(word, line)
        self.assertIn("path=/v1/nope status=404", text)
        for word in (secret, "zebra", "secret-query"):
            self.assertNotIn(word, text)

    def test_quiet(self):
        s = self.start("-q")
        s.get("/v1/nope")
        self.assertNotIn("serve: request", s.close(self))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    Case.hayate = os.path.abspath(sys.argv.pop(1))
    unittest.main()
