// The conversation: streaming answers, stop, edit, regenerate, probabilities.
import { render } from "./markdown.js";
import { answer } from "./api.js";
import * as store from "./store.js";

const $ = (id) => document.getElementById(id);
const el = (tag, cls, ...kids) => {
  const n = document.createElement(tag);
  if (cls) n.className = cls;
  n.append(...kids);
  return n;
};
const button = (label, run) => {
  const b = el("button", "", label);
  b.type = "button";
  b.addEventListener("click", run);
  return b;
};

let current = null;            // conversation
let running = null;            // AbortController of the answer that streams
const thread = $("thread"), input = $("input");

export function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

/* ---- the list ----------------------------------------------------------------------------------- */

function drawList() {
  $("list").replaceChildren(...store.conversations.map((c) => {
    const li = el("li", "");
    const name = button(c.name || "New conversation", () => open(c));
    name.className = "name";
    const drop = button("×", () => {
      store.drop(c);
      if (c === current) open(store.conversations[0] || store.add());
      else drawList();
    });
    drop.className = "drop";
    drop.setAttribute("aria-label", "Delete " + (c.name || "this conversation"));
    if (c === current) li.setAttribute("aria-current", "true");
    li.append(name, drop);
    return li;
  }));
}

export function open(c) {
  stop();
  current = c;
  notice("");
  $("side").classList.remove("open");
  $("menu").setAttribute("aria-expanded", "false");
  drawList();
  draw();
  input.focus();
}

export function fresh() {
  open(store.conversations.find((c) => c.messages.length === 0) || store.add());
}

/* ---- messages ----------------------------------------------------------------------------------- */

const ttftClass = (ms) => ms <= 200 ? ["excellent", "var(--good)"] : ms <= 500 ? ["acceptable", "var(--c1)"]
  : ms <= 1000 ? ["slow", "var(--c2)"] : ["waiting", "var(--c3)"];

function facts(m) {
  const box = el("div", "facts");
  if (!m.facts) return box;
  const f = m.facts;
  if (f.ttft != null) {
    const [word, colour] = ttftClass(f.ttft);
    const dot = el("span", "dot");
    dot.style.background = colour;
    box.append(el("span", "", dot, `first token ${Math.round(f.ttft)} ms (${word})`));
  }
  if (f.n != null) box.append(el("span", "", `${f.n} tokens`));
  if (f.tps) box.append(el("span", "", `${f.tps.toFixed(f.tps < 10 ? 1 : 0)} tokens/s`));
  if (f.drafted) box.append(el("span", "", `${f.accepted} of ${f.drafted} drafted right`));
  if (f.prompt) box.append(el("span", "", `prompt ${f.prompt}${f.cached ? `, ${f.cached} from the cache` : ""}`));
  if (f.finish && f.finish !== "stop") box.append(el("span", "", { length: "length reached", stopped: "stopped" }[f.finish] || f.finish));
  return box;
}

// Logprobs of one token as a span; the surer the model was, the less colour.
function tokenSpan(t) {
  const s = el("span", "", t.token);
  const p = Math.exp(t.logprob);
  if (p < 0.1) s.className = "p0";
  else if (p < 0.4) s.className = "p1";
  else if (p < 0.8) s.className = "p2";
  s.tabIndex = 0;
  s.tip = t;
  return s;
}

function showTip(span) {
  const tip = $("tip"), rows = [];
  const { token, logprob, top_logprobs: top = [] } = span.tip;
  const list = top.some((x) => x.token === token) ? top : [{ token, logprob }, ...top];
  for (const x of list) {
    const tr = el("tr", x.token === token ? "chosen" : "", el("td", "", JSON.stringify(x.token).slice(1, -1)),
      el("td", "", (100 * Math.exp(x.logprob)).toFixed(1) + " %"));
    rows.push(tr);
  }
  tip.replaceChildren(el("table", "", ...rows));
  tip.hidden = false;
  const at = span.getBoundingClientRect();
  tip.style.left = Math.max(8, Math.min(at.left, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = (at.bottom + tip.offsetHeight + 8 > innerHeight ? at.top - tip.offsetHeight - 4 : at.bottom + 4) + "px";
}
for (const on of ["pointerover", "focusin"])
  thread.addEventListener(on, (e) => { if (e.target.tip) showTip(e.target); else if (on === "pointerover") $("tip").hidden = true; });
thread.addEventListener("focusout", () => { $("tip").hidden = true; });
thread.addEventListener("scroll", () => { $("tip").hidden = true; }, { passive: true });

function body(m) {
  const text = el("div", "text");
  if (m.role === "user") text.append(m.content);
  else if (m.tokens && m.showTokens) text.append(el("div", "tokens", ...m.tokens.map(tokenSpan)));
  else text.append(...render(m.content));
  return text;
}

function thoughts(m, open) {
  const d = el("details", "think", el("summary", "", "Thoughts"), el("div", "", m.reasoning));
  d.open = open;
  return d;
}

function actions(m, i) {
  const box = el("div", "acts");
  box.append(button("Copy", () => navigator.clipboard.writeText(m.content)));
  if (m.role === "user") box.append(button("Edit", () => edit(i)));
  else box.append(button("Regenerate", () => { current.messages.length = i; draw(); run(); }));
  if (m.tokens) box.append(button(m.showTokens ? "Formatted" : "Probabilities", () => { m.showTokens = !m.showTokens; replace(i); }));
  return box;
}

function node(m, i) {
  const n = el("article", "msg " + m.role, el("div", "who", m.role === "user" ? "You" : "Hayate"));
  if (m.reasoning) n.append(thoughts(m, false));
  n.append(body(m));
  if (m.role !== "user") n.append(facts(m));
  n.append(actions(m, i));
  return n;
}

const replace = (i) => thread.children[i].replaceWith(node(current.messages[i], i));

function draw() {
  if (current.messages.length === 0) {
    thread.replaceChildren(el("div", "empty", el("h1", "", "What shall we find out?"),
      el("p", "", "The model runs on the machine that served this page. Nothing leaves it.")));
    return;
  }
  thread.replaceChildren(...current.messages.map(node));
  thread.scrollTop = thread.scrollHeight;
}

function edit(i) {
  const m = current.messages[i], area = el("textarea", "");
  area.value = m.content;
  area.setAttribute("aria-label", "Edit message");
  const done = button("Send", () => {
    current.messages.length = i;
    send(area.value);
  });
  done.className = "primary";
  const n = el("article", "msg user", el("div", "who", "You"), area, el("div", "row", button("Cancel", () => replace(i)), done));
  area.addEventListener("keydown", (e) => { if (e.key === "Escape") { e.stopPropagation(); replace(i); } });
  thread.children[i].replaceWith(n);
  area.focus();
}

/* ---- answering ---------------------------------------------------------------------------------- */

export function stop() {
  if (running) running.abort();
}

export function send(text) {
  if (running || !text.trim()) return;
  if (!current.name) current.name = text.trim().split("\n")[0].slice(0, 60);
  current.messages.push({ role: "user", content: text });
  drawList();
  draw();
  run();
}

function busy(on) {
  $("send").hidden = on;
  $("stop").hidden = !on;
}

// Takes one chunk of the stream into the message.
function take(m, chunk, t) {
  const c = chunk.choices && chunk.choices[0];
  if (c && c.delta) {
    const some = c.delta.content || c.delta.reasoning_content;
    if (some && t.first == null) t.first = performance.now();
    if (c.delta.content) m.content += c.delta.content;
    if (c.delta.reasoning_content) m.reasoning = (m.reasoning || "") + c.delta.reasoning_content;
    if (c.logprobs && c.logprobs.content)
      (m.tokens ??= []).push(...c.logprobs.content.map(({ token, logprob, top_logprobs }) =>
        ({ token, logprob, top_logprobs: top_logprobs.map((x) => ({ token: x.token, logprob: x.logprob })) })));
    if (c.finish_reason) m.facts.finish = c.finish_reason;
  }
  const u = chunk.usage, s = chunk.timings;
  if (u) Object.assign(m.facts, { n: u.completion_tokens, prompt: u.prompt_tokens, cached: u.prompt_tokens_details?.cached_tokens || 0 });
  if (s && s.predicted_per_second) m.facts.tps = s.predicted_per_second;
  if (s && s.draft_n) Object.assign(m.facts, { drafted: s.draft_n, accepted: s.draft_n_accepted });
}

async function run() {
  const c = current, m = { role: "assistant", content: "", facts: {} };
  const messages = c.messages.map(({ role, content }) => ({ role, content }));
  if (store.settings.system) messages.unshift({ role: "system", content: store.settings.system });
  c.messages.push(m);
  const i = c.messages.length - 1, control = running = new AbortController(), t = { begin: performance.now(), first: null };
  busy(true);
  notice("");
  draw();
  let frame = 0;
  const paint = () => {
    frame = 0;
    if (c !== current || !thread.children[i]) return;
    const low = thread.scrollHeight - thread.scrollTop - thread.clientHeight < 60;
    const n = el("article", "msg assistant busy", el("div", "who", "Hayate"));
    if (m.reasoning) n.append(thoughts(m, !m.content));
    n.append(body(m));
    thread.children[i].replaceWith(n);
    if (low) thread.scrollTop = thread.scrollHeight;
  };
  paint();
  try {
    for await (const chunk of answer(messages, control.signal)) {
      take(m, chunk, t);
      if (!frame) frame = requestAnimationFrame(paint);
    }
  } catch (e) {
    if (control.signal.aborted) m.facts.finish = "stopped";
    else if (c === current) notice(e.message || String(e));
  }
  cancelAnimationFrame(frame);
  if (t.first != null) m.facts.ttft = t.first - t.begin;
  if (t.first != null && m.facts.n > 1 && !m.facts.tps) m.facts.tps = (m.facts.n - 1) / ((performance.now() - t.first) / 1000);
  if (!m.content && !m.reasoning) c.messages.splice(i, 1);
  if (running === control) {
    running = null;
    busy(false);
  }
  if (c === current) { if (c.messages[i]) replace(i); else draw(); }
  if (!store.save()) notice("This browser has no room for more conversations: delete some to keep new ones.");
}
