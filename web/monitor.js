// The live monitor: what the server counts, each second.
import { getJson } from "./api.js";
import { lines, pages, colour, short } from "./plot.js";
import { fill } from "./profile.js";

const LENGTH = 120;            // seconds shown
const TTFT = "vllm:time_to_first_token_seconds", ITL = "vllm:inter_token_latency_seconds";
const root = document.getElementById("view-monitor");
const el = (tag, cls, ...kids) => {
  const n = document.createElement(tag);
  if (cls) n.className = cls;
  n.append(...kids);
  return n;
};

function card(title, cls, ...kids) {
  const c = el("section", "card " + cls, el("h3", "", title), ...kids);
  root.append(c);
  return c;
}
function tile(title) {
  const big = el("div", "big", "–");
  card(title, "tile", big);
  return (value, unit = "") => big.replaceChildren(value, " ", el("small", "", unit));
}
function plot(title, names, cls = "") {
  const canvas = el("canvas", ""), series = names.map(([label, c, fill]) => ({ label, colour: c, fill, values: [] }));
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", title);
  card(title, cls, canvas, legend(names.map(([label, c]) => [label, c])));
  return {
    add(values) { series.forEach((s, i) => { s.values.push(values[i]); if (s.values.length > LENGTH) s.values.shift(); }); },
    draw(unit) { lines(canvas, series, { unit, length: LENGTH }); },
  };
}
function legend(rows) {
  return el("div", "legend", ...rows.map(([label, c]) => {
    const i = el("i", "");
    i.style.background = `var(${c})`;
    return el("span", "", i, label);
  }));
}
function barBox() {
  const box = el("div", "bars");
  return [box, (rows, show) => {
    const top = Math.max(...rows.map((r) => r[1]), 1e-12);
    box.replaceChildren(...rows.flatMap(([name, v], i) => {
      const bar = el("div", "bar");
      bar.style.width = 100 * v / top + "%";
      return [el("span", "", name), el("div", "track", bar), el("span", "", show(v, i))];
    }));
    if (!rows.length) box.replaceChildren(el("span", "note", "nothing yet"));
  }];
}
function bars(title, cls) {
  const [box, draw] = barBox();
  card(title, cls, box);
  return draw;
}

/* ---- layout ------------------------------------------------------------------------------------- */

let view = null;
function build() {
  root.replaceChildren();
  const v = {
    out: tile("Output"), in: tile("Prompts"), running: tile("Running"), waiting: tile("Waiting"), kv: tile("KV pages in use"),
    hits: tile("Prefix cache hits"),
  };
  const stack = el("div", "stack"), words = el("div", "legend");
  card("Time to first token, last two minutes", "half", stack, words);
  v.ttft = { stack, words };
  v.itl = plot("Time between tokens (ms)", [["median", "--c1", true], ["95th percentile", "--c2"], ["target", "--c4"]], "half");
  v.speed = plot("Tokens per second", [["output", "--c1", true], ["prompt", "--c2"]]);
  v.queue = plot("Requests", [["running", "--c1", true], ["waiting", "--c2"], ["paused", "--c3"]]);
  v.batch = plot("Tokens of a step (mean)", [["tokens", "--c1", true]]);
  v.op = bars("Where a step's time goes, last two minutes", "half");
  v.memory = bars("Memory by purpose", "half");
  const map = el("canvas", ""), note = el("span", "note", "");
  map.setAttribute("role", "img");
  map.setAttribute("aria-label", "KV pages");
  card("KV cache, page by page (16 tokens each)", "all", map,
    legend([["free", "--k0"], ["one request", "--k1"], ["shared by several", "--k2"], ["prefix cache only", "--k3"]]), note);
  v.map = { map, note };
  card("Profile of what runs now: where the time goes, what holds it back, what to try", "all profile", ...fill(el, barBox));
  const [box, draw] = barBox(), said = el("p", "note", "");
  v.spec = { card: card("Speculation: drafted tokens that were right, by their place in the draft", "all", box, said), draw, said };
  v.ends = bars("Requests by ending", "half");
  v.refused = bars("Requests refused", "half");
  return v;
}

/* ---- numbers ------------------------------------------------------------------------------------ */

const since = (now, then) => now.count.map((c, i) => c - (then ? then.count[i] : 0));
function quantile(bound, count, q) {
  const all = count.reduce((a, b) => a + b, 0);
  if (!all) return null;
  let left = q * all;
  for (let i = 0; i < count.length; i++) {
    if (left <= count[i] && count[i]) {
      const low = i ? bound[i - 1] : 0, high = i < bound.length ? bound[i] : bound[bound.length - 1];
      return low + (high - low) * left / count[i];
    }
    left -= count[i];
  }
  return bound[bound.length - 1];
}
// Shares of a histogram between limits, in the same unit as its bounds.
function classes(h, then, limits) {
  const count = since(h, then), out = limits.map(() => 0).concat(0);
  count.forEach((c, i) => {
    const upper = i < h.bound.length ? h.bound[i] : Infinity;
    let k = limits.findIndex((l) => upper <= l + 1e-9);
    if (k < 0) k = limits.length;
    out[k] += c;
  });
  return out;
}

// Of the last two minutes, or since the start where nothing was drafted in them.
function speculation(s, then) {
  const { proposers, drafted, accepted } = s.speculation, n = s.number;
  view.spec.card.hidden = !proposers.length;
  if (!proposers.length) return;
  const diff = (key) => s.speculation[key].map((x, i) => x - ((then && then.speculation[key][i]) || 0));
  let d = diff("drafted"), a = diff("accepted");
  if (!d.some((x) => x)) [d, a] = [drafted, accepted];
  const rows = d.map((x, i) => [`${i + 1}.`, x ? a[i] / x : 0]).filter((r, i) => d[i]);
  view.spec.draw(rows, (x, i) => `${Math.round(100 * x)} % of ${short(d[i])}`);
  const all = n["vllm:spec_decode_num_draft_tokens_total"], good = n["vllm:spec_decode_num_accepted_tokens_total"];
  view.spec.said.textContent = `Drafts by ${proposers.join(", ")}.` + (all ? ` Since the start ${short(good)} of ${short(all)} drafted tokens were right: ` +
    `about ${n.hayate_speculation_speedup_ratio.toFixed(2)} times the plain speed.` : " Nothing was drafted yet.");
}

const history = [];
function show(s) {
  const now = history[history.length - 1], last = history[history.length - 2], old = history[0];
  const n = s.number, dt = last ? now.time - last.time : 0;
  const rate = (name) => dt > 0 ? (n[name] - last.number[name]) / dt : null;
  const out = rate("vllm:generation_tokens_total"), taken = rate("vllm:prompt_tokens_total");
  view.out(out == null ? "–" : short(out), "tokens/s");
  view.in(taken == null ? "–" : short(taken), "tokens/s");
  view.running(n["vllm:num_requests_running"], `of ${s.model.n_seq}`);
  view.waiting(n["vllm:num_requests_waiting"], n.hayate_requests_paused ? `${n.hayate_requests_paused} paused` : "");
  view.kv((100 * n["vllm:kv_cache_usage_perc"]).toFixed(0), "% of " + short(n.hayate_kv_pages));
  const asked = n["vllm:prefix_cache_queries_total"];
  view.hits(asked ? (100 * n["vllm:prefix_cache_hits_total"] / asked).toFixed(0) : "–", asked ? "% of tokens" : "");

  const shares = classes(s.hist[TTFT], old === now ? null : old.hist[TTFT], [0.2, 0.5, 1]), all = shares.reduce((a, b) => a + b, 0);
  const names = ["≤ 200 ms", "≤ 500 ms", "≤ 1 s", "above"], paint = ["--good", "--c1", "--c2", "--c3"];
  view.ttft.stack.replaceChildren(...shares.map((c, i) => {
    const d = el("div", "");
    d.style.cssText = `flex:${c};background:var(${paint[i]})`;
    return d;
  }));
  view.ttft.words.replaceChildren(...legend(names.map((t, i) => [`${t}: ${all ? Math.round(100 * shares[i] / all) : 0} % (${shares[i]})`, paint[i]])).children);

  const itl = last ? since(s.hist[ITL], last.hist[ITL]) : [];
  const ms = (q) => { const x = last ? quantile(s.hist[ITL].bound, itl, q) : null; return x == null ? null : x * 1000; };
  view.itl.add([ms(0.5), ms(0.95), n.hayate_itl_target_seconds * 1000]);
  view.speed.add([out, taken]);
  view.queue.add([n["vllm:num_requests_running"], n["vllm:num_requests_waiting"], n.hayate_requests_paused]);
  const b = s.hist["vllm:iteration_tokens_total"], b0 = last && last.hist["vllm:iteration_tokens_total"];
  const steps = b0 ? since(b, b0).reduce((x, y) => x + y, 0) : 0;
  view.batch.add([steps ? (b.sum - b0.sum) / steps : null]);
  view.itl.draw("");
  view.speed.draw("");
  view.queue.draw("");
  view.batch.draw("");

  const op = Object.entries(s.operator).map(([k, v]) => [k, v - (old !== now ? old.operator[k] || 0 : 0)]).filter((r) => r[1] > 0)
    .sort((a, b2) => b2[1] - a[1]).slice(0, 12), sum = op.reduce((a, r) => a + r[1], 0);
  view.op(op, (x) => (100 * x / sum).toFixed(1) + " %");
  view.memory(Object.entries(s.memory).filter((r) => r[1]).sort((a, b2) => b2[1] - a[1]), (x) => (x / 1048576).toFixed(1) + " MiB");
  const each = pages(view.map.map, s.page_map || "");
  view.map.note.textContent = each > 1 ? `each square stands for ${each} pages` : "";
  speculation(s, old === now ? null : old);
  view.ends(Object.entries(s.finished).filter((r) => r[1]), String);
  view.refused(Object.entries(s.refused).filter((r) => r[1]), String);
}

let timer = 0;
async function tick() {
  try {
    const s = await getJson("/stats");
    history.push(s);
    while (history.length > LENGTH) history.shift();
    root.classList.remove("stale");
    show(s);
  } catch (e) {
    root.classList.add("stale");
    root.title = String(e.message || e);
  }
  if (timer) timer = setTimeout(tick, 1000);
}

export function start() {
  view ??= build();
  if (!timer) { timer = 1; tick(); }
}
export function stop() {
  clearTimeout(timer);
  timer = 0;
}
