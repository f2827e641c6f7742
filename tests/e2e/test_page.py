"""The page in a real browser: chat, stop, edit, regenerate, probabilities, settings, monitor; light, dark, phone.
Screenshots go to SHOTS. Needs playwright and Chromium.

usage: test_page.py HAYATE MODEL CHROMIUM SHOTS [TEST...]"""
import json
import os
import re
import sys

from playwright.sync_api import expect, sync_playwright

import common
import serve_common
from serve_common import Case, Server

MODEL = CHROMIUM = SHOTS = None
LONG = serve_common.PATIENCE * 1000
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]


class Page(Case):
    flags = None

    @classmethod
    def setUpClass(cls):
        common.run(cls(), cls.hayate, "cpu")  # the machine's limits, for the profile
        cls.server = Server(cls.hayate, "--parallel", 8, "--ctx", 2048, "--timing", "--speculate", "ngram", "--spec-always", model=MODEL)
        cls.play = sync_playwright().start()
        cls.browser = cls.play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.play.stop()
        cls.server.close(cls())

    def setUp(self):
        expect.set_options(timeout=LONG)
        self.said, self.asked = [], []

    def open(self, path="/", **context):
        c = self.browser.new_context(**{"viewport": {"width": 1200, "height": 850}, **context})
        self.addCleanup(c.close)
        page = c.new_page()
        page.set_default_timeout(LONG)
        page.on("console", lambda m: self.said.append(m.text))
        page.on("pageerror", lambda e: self.said.append(str(e)))
        page.on("request", lambda r: self.asked.append(r.url))
        page.goto(self.server.url + path)
        return page

    def tearDown(self):
        self.assertEqual(self.said, [])
        for url in self.asked:
            self.assertTrue(url.startswith(self.server.url), "asked another host: " + url)

    def wait_js(self, page, expression):
        """The page's policy forbids eval, which playwright's own wait_for_function would use."""
        serve_common.until(expression, lambda: page.evaluate(expression))

    def shot(self, page, name):
        page.screenshot(path=os.path.join(SHOTS, name + ".png"))

    def short_answers(self, page, n=24):
        page.click("#settings-open")
        page.fill("#set-max_tokens", str(n))
        page.fill("#set-temperature", "0")
        page.click("#settings .primary")

    def ask(self, page, text):
        before = page.locator(".msg.assistant .facts span").count()
        page.fill("#input", text)
        page.keyboard.press("Enter")
        expect(page.locator("#send")).to_be_visible()
        self.assertGreater(page.locator(".msg.assistant .facts span").count(), before)

    def answers(self, page):
        return page.locator(".msg.assistant .text").all_inner_texts()

    def test_chat(self):
        page = self.open()
        expect(page.locator("#model")).not_to_be_empty()
        self.short_answers(page)
        self.ask(page, "Why is the sky blue?")
        facts = page.locator(".msg.assistant .facts").inner_text()
        self.assertRegex(facts, r"first token \d+ ms \((excellent|acceptable|slow|waiting)\)")
        self.assertRegex(facts, r"\b\d+ tokens\b")
        first = self.answers(page)[0]
        self.assertNotEqual(first, "")
        # the same question again, greedy: the same answer, its prompt out of the prefix cache
        page.click("text=Regenerate")
        self.wait_js(page, "document.querySelector('#stop').hidden && document.querySelectorAll('.facts span').length > 2")
        self.assertEqual(self.answers(page), [first])
        self.assertIn("from the cache", page.locator(".msg.assistant .facts").inner_text())
        # edit: the conversation goes on from there
        page.click("text=Edit")
        page.fill(".msg.user textarea", "Name one colour.")
        page.click(".msg.user .primary")
        self.wait_js(page, "document.querySelector('#stop').hidden && document.querySelectorAll('.facts span').length > 2")
        self.assertEqual(page.locator(".msg.user .text").all_inner_texts(), ["Name one colour."])
        self.shot(page, "chat-light")
        # it is kept in this browser
        page.reload()
        self.assertEqual(page.locator(".msg.user .text").all_inner_texts(), ["Name one colour."])
        page.click("#new")
        self.assertEqual(page.locator(".msg").count(), 0)
        self.assertEqual(page.locator("#list li").count(), 2)
        page.click("#list li:nth-child(2) .name")
        self.assertEqual(page.locator(".msg").count(), 2)
        page.click("#list li[aria-current] .drop")
        self.assertEqual(page.locator("#list li").count(), 1)

    def test_stop(self):
        page = self.open()
        self.short_answers(page, 1500)
        page.fill("#input", "Tell a very long story about a river.")
        page.keyboard.press("Enter")
        page.wait_for_selector(".msg.busy")
        self.wait_js(page, "document.querySelector('.msg.assistant .text').innerText.length > 5")
        page.keyboard.press("Escape")
        expect(page.locator("#send")).to_be_visible()
        expect(page.locator(".msg.assistant .facts")).to_contain_text("stopped")
        serve_common.until("the server to drop the request", lambda: self.server.get("/stats").json()["number"]["vllm:num_requests_running"] == 0)

    def test_probabilities(self):
        page = self.open()
        self.short_answers(page)
        page.click("#settings-open")
        page.check("#set-probabilities")
        page.click("#settings .primary")
        self.ask(page, "Say hello.")
        text = self.answers(page)[0]
        page.click("text=Probabilities")
        spans = page.locator(".tokens span")
        self.assertGreater(spans.count(), 1)
        self.assertEqual(re.sub(r"\s+", "", "".join(spans.all_text_contents())), re.sub(r"\s+", "", text))
        spans.nth(0).hover()
        tip = page.locator("#tip")
        expect(tip).to_be_visible()
        shares = [float(x) for x in re.findall(r"(\d+\.\d) %", tip.inner_text())]
        self.assertGreater(len(shares), 3)
        self.assertLessEqual(sum(shares), 100.5)
        self.assertEqual(tip.locator(".chosen").count(), 1)
        self.shot(page, "probabilities")

    def test_markdown_is_safe(self):
        page = self.open()
        html = page.evaluate("""async () => {
            const { render } = await import('/assets/markdown.js');
            const box = document.createElement('div');
            box.append(...render('<img src=x onerror=alert(1)> **b** `c` [x](javascript:alert(1)) [y](https://example.com)\\n\\n```\\n<script>1</script>\\n```\\n\\n1. a\\n2. b\\n\\n|h|\\n|-|\\n|d|\\n\\n> q'));
            return box.innerHTML; }""")
        self.assertNotIn("<img", html)
        self.assertNotIn("<script", html)
        self.assertNotIn("href=\"javascript", html)
        for want in ("<strong>b</strong>", "<code>c</code>", 'href="https://example.com"', "<ol", "<td>d</td>", "<blockquote>",
                     "&lt;script&gt;1&lt;/script&gt;"):
            self.assertIn(want, html)

    def test_monitor(self):
        page = self.open("/#monitor")
        self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 40, "ignore_eos": True})
        self.wait_js(page, "/100 %|\\([1-9]/.test(document.querySelector('#view-monitor').innerText)")
        text = page.locator("#view-monitor").inner_text()
        for want in ("≤ 200 ms", "Prefix cache hits", "Where a step's time goes", "weights", "KV cache, page by page"):
            self.assertIn(want, text)
        self.shot(page, "monitor-light")
        page.click("#theme")
        self.assertEqual(page.evaluate("document.documentElement.dataset.theme"), "dark")
        page.wait_for_timeout(1500)
        self.shot(page, "monitor-dark")

    def talk(self):
        """Answers that go on until the test is over."""
        r = self.server.raw()
        self.addCleanup(r.close)
        r.request("POST", "/v1/completions", {"prompt": "one two one two one two", "max_tokens": 1900, "ignore_eos": True, "stream": True,
                                              "temperature": 0})
        self.assertEqual(r.head()[0], 200)

    def profile(self, page):
        held = []  # the request waits until its beginning was seen
        page.route("**/debug/profile*", lambda route: held.append(route))
        page.click("#profile-run")
        expect(page.locator("#profile-run")).to_be_disabled()
        expect(page.locator(".profile .note")).to_contain_text(re.compile(r"\d s left|almost there"))
        serve_common.until("the request", lambda: page.wait_for_timeout(10) or held)
        held[0].continue_()
        page.unroute("**/debug/profile*")
        expect(page.locator("#profile-run")).to_be_enabled()
        text = page.locator("#profile-result").inner_text()
        for want in ("engine made", "largest share", "Bottleneck", "Worth trying", "waiting at barriers", "Steps that"):
            self.assertIn(want, text)
        return text

    def test_profile(self):
        page = self.open("/#monitor")
        self.talk()
        text = self.profile(page)
        named = re.search(r"largest share of the steps is ([^:]+): (\d+) %", text)
        # the bar of the operator that the sentence names is one of the longest of its phase
        bars = page.locator("#profile-result .bars").first
        self.assertIn(named[1], bars.inner_text())
        widths = bars.locator(".bar").evaluate_all("l => l.map((b) => b.getBoundingClientRect().width)")
        self.assertGreater(max(widths), 100)
        for i, theme in enumerate(("light", "dark")):
            if i:
                page.click("#theme")
            page.locator(".profile").scroll_into_view_if_needed()
            page.locator(".profile").evaluate("e => e.scrollIntoView()")
            page.wait_for_timeout(300)
            self.shot(page, "profile-" + theme)
        self.talk()
        with page.expect_download() as d:
            page.click("#profile-trace")
        self.assertEqual(d.value.suggested_filename, "hayate-trace.json")
        with open(d.value.path(), encoding="utf-8") as f:
            self.assertGreater(len(json.load(f)["traceEvents"]), 100)
        expect(page.locator(".profile .note")).to_contain_text("perfetto")

    def test_profile_on_a_phone(self):
        page = self.open("/#monitor", viewport={"width": 390, "height": 800})
        self.talk()
        self.profile(page)
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 390)
        page.locator(".profile").evaluate("e => e.scrollIntoView()")
        self.shot(page, "profile-phone")

    def test_profile_is_refused(self):
        """What the server says against it stands beside the button."""
        page = self.open("/#monitor")
        page.route("**/debug/profile*", lambda r: r.fulfill(status=403, content_type="application/json",
                   body=json.dumps({"error": {"message": "key user may not", "type": "x", "param": None, "code": "not_allowed"}})))
        page.click("#profile-run")
        expect(page.locator(".profile .note")).to_contain_text("key user may not")
        expect(page.locator("#profile-run")).to_be_enabled()
        self.assertTrue(all("403" in s for s in self.said), self.said)
        self.said.clear()

    def test_speculation(self):
        page = self.open("/#monitor")
        self.server.post("/v1/completions", {"prompt": "one two one two one two", "max_tokens": 60, "ignore_eos": True, "temperature": 0})
        card = page.locator(".card", has_text="Speculation: drafted tokens")
        expect(card).to_contain_text("Drafts by ngram")
        expect(card).to_contain_text("times the plain speed")
        self.assertRegex(card.inner_text(), r"1\.\s+\d+ % of \d")

    def test_phone_and_keyboard(self):
        page = self.open(viewport={"width": 390, "height": 800}, color_scheme="dark")
        self.assertEqual(page.evaluate("document.documentElement.dataset.theme"), "dark")
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 390)
        self.short_answers(page)
        self.ask(page, "Hi")
        self.shot(page, "phone")
        page.click("#menu")
        expect(page.locator("#side")).to_be_visible()
        page.click("#list .name")
        page.focus("#tab-chat")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#view-monitor")).to_be_visible()
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 390)
        self.shot(page, "phone-monitor")
        page.keyboard.press("/")
        expect(page.locator("#input")).to_be_focused()
        page.keyboard.press("Control+k")
        self.assertEqual(page.locator(".msg").count(), 0)


if __name__ == "__main__":
    Case.hayate = os.path.abspath(sys.argv.pop(1))
    MODEL, CHROMIUM, SHOTS = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
    serve_common.unittest.main(verbosity=1)
