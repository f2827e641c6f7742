// Conversations and settings, in this browser only.

const KEY = "hayate.conversations", SETTINGS = "hayate.settings";

const read = (key, otherwise) => {
  try { return JSON.parse(localStorage.getItem(key)) ?? otherwise; } catch { return otherwise; }
};
const write = (key, value) => {
  try { localStorage.setItem(key, JSON.stringify(value)); return true; } catch { return false; }
};

// kind: how the field is shown; field: its name in the request (none: ours alone).
export const FIELDS = [
  { id: "system", label: "System message", kind: "text", full: true, value: "" },
  { id: "temperature", field: "temperature", label: "Temperature", kind: "number", min: 0, max: 5, step: 0.05, value: 0.7 },
  { id: "max_tokens", field: "max_tokens", label: "Longest answer (tokens)", kind: "number", min: 1, max: 1000000, step: 1, value: 1024 },
  { id: "top_p", field: "top_p", label: "Top-p", kind: "number", min: 0, max: 1, step: 0.01, value: 1 },
  { id: "top_k", field: "top_k", label: "Top-k (0: off)", kind: "number", min: 0, max: 100000, step: 1, value: 0 },
  { id: "min_p", field: "min_p", label: "Min-p", kind: "number", min: 0, max: 1, step: 0.01, value: 0 },
  { id: "repeat_penalty", field: "repeat_penalty", label: "Repetition penalty", kind: "number", min: 0.1, max: 3, step: 0.01, value: 1 },
  { id: "seed", field: "seed", label: "Seed (empty: random)", kind: "number", min: 0, max: 9007199254740991, step: 1, value: null },
  { id: "stop", label: "Stop string", kind: "line", value: "" },
  { id: "key", label: "API key", kind: "password", full: true, value: "" },
  { id: "probabilities", label: "Keep the probabilities of tokens (shown on hover)", kind: "check", full: true, value: false },
];
export const defaults = () => Object.fromEntries(FIELDS.map((f) => [f.id, f.value]));

export const settings = { ...defaults(), ...read(SETTINGS, {}) };
export const saveSettings = () => write(SETTINGS, settings);

export const conversations = read(KEY, []);
let timer = 0;
let full = false;
// false once the browser has no room for more
export function save() {
  clearTimeout(timer);
  timer = setTimeout(() => { full = !write(KEY, conversations); }, 150);
  return !full;
}
addEventListener("pagehide", () => write(KEY, conversations));

export function add() {
  const c = { id: crypto.randomUUID ? crypto.randomUUID() : String(Date.now()) + Math.random(), name: "", messages: [] };
  conversations.unshift(c);
  return c;
}
export function drop(c) {
  const i = conversations.indexOf(c);
  if (i >= 0) conversations.splice(i, 1);
  save();
}
