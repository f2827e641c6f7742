// The running load, profiled when asked: sentences, and a bar for each operator.
import { getBlob, getJson } from "./api.js";

const SECONDS = 5, TRACE_SECONDS = 2;

// `code` in sentences
function words(el, line) {
  return line.split("`").map((part, i) => i % 2 ? el("code", "", part) : part);
}
function prose(el, text) {
  const out = [];
  for (const line of text.trim().split("\n")) {
    const item = /^\d\. (.*)/.exec(line), last = out[out.length - 1];
    if (!item) { out.push(el("p", "", ...words(el, line))); continue; }
    const list = last && last.tagName === "OL" ? last : el("ol", "");
    list.append(el("li", "", ...words(el, item[1])));
    if (list !== last) out.push(list);
  }
  return out;
}

const percent = (x) => (100 * x).toFixed(x < 0.1 ? 1 : 0) + " %";
const names = { prefill: "Steps that take in prompts", decode: "Steps that only give out tokens" };

function phase(el, barBox, f) {
  const [box, draw] = barBox();
  const limit = (o) => o.limit === "-" || !(o.of_limit > 0) ? "" : `, ${Math.round(100 * o.of_limit)} % of its limit`;
  const all = [...f.operators.map((o) => [o.op, o.ms, limit(o)]), ["waiting at barriers", f.waiting_ms, ""], ["outside the operators", f.outside_ms, ""]];
  const rows = all.filter((r) => r[1] > 0.001 * f.ms);
  draw(rows.map((r) => [r[0], r[1] / f.ms]), (x, i) => percent(x) + rows[i][2]);
  return [el("h4", "", names[f.phase] || f.phase), ...prose(el, f.prose), box];
}

export function fill(el, barBox) {
  const button = (label, cls) => Object.assign(el("button", cls, label), { type: "button" });
  const run = button(`Profile ${SECONDS} s`, "primary"), trace = button("Save a trace", "quiet");
  const status = el("span", "note", "What runs goes on meanwhile, under 3 % slower."), result = el("div", "prose");
  run.id = "profile-run";
  trace.id = "profile-trace";
  status.setAttribute("role", "status");
  result.id = "profile-result";

  async function busy(seconds, work) {
    run.disabled = trace.disabled = true;
    let left = seconds;
    const tick = () => { status.textContent = left > 0 ? `profiling: ${left} s left` : "almost there"; left--; };
    tick();
    const timer = setInterval(tick, 1000);
    try {
      status.textContent = await work();
    } catch (e) {
      status.textContent = e.message || String(e);
    } finally {
      clearInterval(timer);
      run.disabled = trace.disabled = false;
    }
  }
  run.addEventListener("click", () => busy(SECONDS, async () => {
    const p = await getJson(`/debug/profile?seconds=${SECONDS}`);
    result.replaceChildren(...prose(el, p.load.prose), ...p.phases.flatMap((f) => phase(el, barBox, f)));
    return "";
  }));
  trace.addEventListener("click", () => busy(TRACE_SECONDS, async () => {
    const url = URL.createObjectURL(await getBlob(`/debug/profile?seconds=${TRACE_SECONDS}&format=trace`));
    const a = Object.assign(document.createElement("a"), { href: url, download: "hayate-trace.json" });
    a.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
    return "Saved: https://ui.perfetto.dev shows it.";
  }));
  return [el("div", "row", run, trace, status), result];
}
