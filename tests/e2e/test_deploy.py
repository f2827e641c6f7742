"""deploy/ as it stands: Prometheus scrapes a server and takes our rules, the dashboard asks only for what there is,
two replicas behind HAProxy and behind nginx, each conversation at one of them; traces reach a collector.

usage: test_deploy.py HAYATE TOOLS [TEST...]     TOOLS: what tools/fetch_tools.sh printed"""
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import urllib.request

import common
import serve_common
from serve_common import Case, Server, until

TOOLS = None
DEPLOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def tool(name, *args, **kw):
    return [os.path.join(TOOLS, name), *map(str, args)]


def metric_names(text):
    return set(re.findall(r"^# TYPE (\S+) ", text, re.M))


class Base(Case):
    flags = None

    def background(self, args, **kw):
        p = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)

        def end():
            p.terminate()
            p.wait()
        self.addCleanup(end)
        return p

    def folder(self):
        d = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, d)
        return d

    def complete(self, server, prompt="Hello", n=4):
        r = server.post("/v1/completions", {"prompt": prompt, "max_tokens": n, "temperature": 0})
        self.assertEqual(r.status, 200, r.body)
        return r.json()


class Rules(Base):
    def test_promtool(self):
        for args in (["check", "rules", "alerts.yml"], ["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]):
            r = subprocess.run(tool("promtool", *args), cwd=DEPLOY, capture_output=True, text=True)
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)

    def test_metrics_text(self):
        s = self.start()
        self.complete(s)
        text = s.get("/metrics").body
        r = subprocess.run(tool("promtool", "check", "metrics"), input=text, capture_output=True)
        # vLLM's names have a colon, which promtool's style check advises against; errors of format end it with 1
        self.assertNotIn(b"error", r.stderr.lower())
        self.assertIn(r.returncode, (0, 3), r.stderr)
        s.close(self)

    def test_dashboard_and_rules_ask_for_what_there_is(self):
        s = self.start("--timing", "--speculate", "ngram", "--spec-always")
        self.complete(s, "one two three four " * 12, 48)
        names = metric_names(s.get("/metrics").body.decode())
        s.close(self)
        with open(os.path.join(DEPLOY, "grafana", "hayate.json"), encoding="utf-8") as f:
            dashboard = " ".join(t["expr"] for p in json.load(f)["panels"] for t in p["targets"])
        with open(os.path.join(DEPLOY, "alerts.yml"), encoding="utf-8") as f:
            asked = dashboard + f.read()

        def of(text):
            found = set(re.findall(r"\b(?:vllm:|hayate_|process_)\w+", text))
            return {name if name in names else re.sub(r"_(bucket|count|sum)$", "", name) for name in found}
        self.assertGreater(len(of(asked)), 20)
        self.assertEqual(of(asked) - names, set(), "asked for, and not there")
        # and every metric has a panel, but older names of others and what only says what this is
        beside = {"vllm:gpu_cache_usage_perc", "vllm:time_per_output_token_seconds", "vllm:cache_config_info", "hayate_build_info"}
        self.assertLessEqual(beside, names)
        self.assertEqual(names - of(dashboard) - beside, set(), "without a panel")

    def test_dashboard_is_made_by_its_script(self):
        r = subprocess.run([sys.executable, os.path.join(DEPLOY, "grafana", "make_dashboard.py")], capture_output=True, text=True,
                           encoding="utf-8")
        with open(os.path.join(DEPLOY, "grafana", "hayate.json"), encoding="utf-8") as f:
            self.assertEqual(r.stdout, f.read())

    def test_prometheus_scrapes(self):
        s = self.start()
        self.complete(s)
        d, port = self.folder(), free_port()
        with open(os.path.join(DEPLOY, "prometheus.yml"), encoding="utf-8") as f:
            config = f.read().replace("127.0.0.1:8080", "127.0.0.1:%d" % s.port).replace("5s", "1s")
        shutil.copy(os.path.join(DEPLOY, "alerts.yml"), d)
        with open(os.path.join(d, "prometheus.yml"), "w", encoding="utf-8") as f:
            f.write(config)
        self.background(tool("prometheus", "--config.file", os.path.join(d, "prometheus.yml"), "--storage.tsdb.path",
                             os.path.join(d, "data"), "--web.listen-address", "127.0.0.1:%d" % port))

        def query(expression):
            url = "http://127.0.0.1:%d/api/v1/query?query=%s" % (port, urllib.parse.quote(expression))
            try:
                with urllib.request.urlopen(url, timeout=10) as r:
                    return json.load(r)["data"]["result"]
            except OSError:
                return None
        got = until("a scrape", lambda: query("vllm:request_success_total{finished_reason=\"length\"} == 1"))
        self.assertEqual(got[0]["metric"]["job"], "hayate")
        self.assertEqual(query('up{job="hayate"}')[0]["value"][1], "1")
        ttft = query("vllm:time_to_first_token_seconds_count")
        self.assertEqual(ttft[0]["value"][1], "1")
        s.close(self)


class Replicas(Base):
    """What both proxies must do."""

    def replicas(self):
        return [self.start(*serve_common.LONG_FLAGS), self.start(*serve_common.LONG_FLAGS)]

    def served(self, replica):
        m = re.search(r'^vllm:request_success_total\{.*finished_reason="length"\} (\d+)', replica.get("/metrics").body.decode(), re.M)
        return int(m[1])

    def check(self, port, replicas):
        class Proxy:
            host = "127.0.0.1"
        Proxy.port = port

        def chat(start, end):
            c = serve_common.http.client.HTTPConnection("127.0.0.1", port, timeout=serve_common.PATIENCE)
            try:
                return serve_common.ask(c, "POST", "/v1/chat/completions", {
                    "messages": [{"role": "system", "content": start}, {"role": "user", "content": end}], "max_tokens": 2,
                    "temperature": 0, "ignore_eos": True})
            finally:
                c.close()

        def alive():
            try:
                return chat("warm", "up").status == 200
            except OSError:
                return False
        until("the proxy", alive)
        both, i, apart = set(), 0, 0
        while i < 12 or (len(both) < 2 and i < 60):
            i += 1
            before = [self.served(r) for r in replicas]
            for turn in ("one", "two", "three"):
                r = chat("Conversation %d. " % i * 30, turn)
                self.assertEqual(r.status, 200, r.body)
            took = [self.served(r) - b for r, b in zip(replicas, before)]
            # a proxy that still counts the last turn as running may think its replica too busy for the next one
            apart += sorted(took) != [0, 3]
            self.assertLessEqual(apart, 3, "one conversation, one replica")
            if sorted(took) == [0, 3]:
                both.add(took.index(3))
        self.assertEqual(both, {0, 1}, "conversations are spread")
        # a stream passes through piece by piece, and ends whole
        c = serve_common.http.client.HTTPConnection("127.0.0.1", port, timeout=serve_common.PATIENCE)
        r = serve_common.ask(c, "POST", "/v1/completions", {"prompt": "a", "max_tokens": 20, "stream": True, "ignore_eos": True})
        self.assertEqual(serve_common.events(r.body)[-1], "[DONE]")
        c.close()
        # who leaves the proxy leaves the replica
        for stream in (True, False):
            gone = lambda: sum(r.log().count("gone=1") for r in replicas)
            before = gone()
            r = serve_common.Raw(socket.create_connection(("127.0.0.1", port), serve_common.PATIENCE))
            r.request("POST", "/v1/completions", dict(serve_common.LONG, stream=stream))
            if stream:
                self.assertEqual(r.head()[0], 200)
            else:
                until("it to run", lambda: any(s.get("/stats").json()["number"]["vllm:num_requests_running"] for s in replicas))
            r.close()
            until("the cancel", lambda: gone() > before)
        # one replica gone: the other takes all
        replicas[0].close(self)
        until("the proxy to pass over the one that is gone",
              lambda: all(chat("Conversation %d. " % i * 30, "four").status == 200 for i in range(6)))
        replicas[1].close(self)

    def test_haproxy(self):
        a, b = self.replicas()
        port = free_port()
        self.background(tool("haproxy", "-f", os.path.join(DEPLOY, "haproxy.cfg")),
                        env={**os.environ, "HAYATE_BIND": "127.0.0.1:%d" % port, "HAYATE_A": "127.0.0.1:%d" % a.port,
                             "HAYATE_B": "127.0.0.1:%d" % b.port})
        self.check(port, [a, b])

    def test_nginx(self):
        a, b = self.replicas()
        d, port = self.folder(), free_port()
        os.chmod(d, 0o755)
        with open(os.path.join(DEPLOY, "nginx.conf"), encoding="utf-8") as f:
            config = f.read()
        for was, now in (("8080", port), ("8081", a.port), ("8082", b.port)):
            self.assertIn("127.0.0.1:" + was, config)
            config = config.replace("127.0.0.1:" + was, "127.0.0.1:%d" % now)
        with open(os.path.join(d, "nginx.conf"), "w", encoding="utf-8") as f:
            f.write(config)
        self.background(tool("nginx", "-p", d, "-c", "nginx.conf", "-g", "daemon off;"))
        self.check(port, [a, b])


class Traces(Base):
    def test_collector(self):
        got = []

        class Collector(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                got.append((self.path, self.headers["Content-Type"], json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args):
                pass
        collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        self.addCleanup(collector.server_close)
        self.addCleanup(collector.shutdown)
        s = self.start("--otlp", "http://127.0.0.1:%d" % collector.server_port)
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        r = s.post("/v1/completions", {"prompt": "Hello there", "max_tokens": 5, "ignore_eos": True},
                   {"traceparent": "00-%s-00f067aa0ba902b7-01" % trace})
        self.assertEqual(r.status, 200, r.body)

        def spans():
            return [x for _, _, body in got for rs in body["resourceSpans"] for ss in rs["scopeSpans"] for x in ss["spans"]
                    if x["traceId"] == trace]
        until("the trace", spans)
        s.close(self)
        self.assertEqual(got[0][:2], ("/v1/traces", "application/json"))
        root = [x for x in spans() if x["name"] == "POST /v1/completions"][0]
        self.assertEqual(root["parentSpanId"], "00f067aa0ba902b7")
        names = {x["name"] for x in spans() if x.get("parentSpanId") == root["spanId"]}
        self.assertLessEqual({"queue", "prefill chunk", "decode"}, names)
        for x in spans():
            self.assertLessEqual(int(root["startTimeUnixNano"]), int(x["startTimeUnixNano"]) + 1000)
            self.assertLessEqual(int(x["startTimeUnixNano"]), int(x["endTimeUnixNano"]))
        value = {a["key"]: list(a["value"].values())[0] for a in root["attributes"]}
        self.assertEqual(value["gen_ai.usage.output_tokens"], "5")
        self.assertEqual(value["http.response.status_code"], "200")


if __name__ == "__main__":
    Case.hayate = os.path.abspath(sys.argv.pop(1))
    TOOLS = os.path.abspath(sys.argv.pop(1))
    serve_common.unittest.main(verbosity=1)
