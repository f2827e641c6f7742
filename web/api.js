// The server's own API, as any client would use it.
import { settings, FIELDS } from "./store.js";

export function headers(extra = {}) {
  return settings.key ? { ...extra, Authorization: "Bearer " + settings.key } : extra;
}

async function get(path) {
  const r = await fetch(path, { headers: headers(), cache: "no-store" });
  if (!r.ok) throw new Error(await reason(r));
  return r;
}
export const getJson = async (path) => (await get(path)).json();
export const getBlob = async (path) => (await get(path)).blob();

async function reason(r) {
  const text = await r.text();
  let message = text.slice(0, 300);
  try { message = JSON.parse(text).error.message; } catch { /* not JSON: as it is */ }
  const wait = r.headers.get("retry-after");
  if (r.status === 401) message += " Put a key into Settings.";
  return `${r.status}: ${message || r.statusText}${wait ? ` (try again in ${wait} s)` : ""}`;
}

// Server-sent events, however the bytes are cut.
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      held += value;
      const parts = held.split("\n\n");
      held = parts.pop();
      for (const part of parts) {
        const data = part.split("\n").filter((l) => l.startsWith("data:")).map((l) => l.slice(5).trimStart()).join("\n");
        if (data === "[DONE]") return;
        if (data) yield JSON.parse(data);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// Yields the chunks of an answer.
export async function* answer(messages, signal) {
  const body = { messages, stream: true, stream_options: { include_usage: true } };
  for (const f of FIELDS) if (f.field && settings[f.id] !== null && settings[f.id] !== "") body[f.field] = settings[f.id];
  if (settings.stop) body.stop = [settings.stop];
  if (settings.probabilities) Object.assign(body, { logprobs: true, top_logprobs: 8 });
  const r = await fetch("/v1/chat/completions", {
    method: "POST", signal, body: JSON.stringify(body), headers: headers({ "Content-Type": "application/json" }),
  });
  if (!r.ok) throw new Error(await reason(r));
  for await (const chunk of events(r.body)) {
    if (chunk.error) throw new Error(chunk.error.message);
    yield chunk;
  }
}
