// What belongs to the page as a whole: tabs, theme, settings, keys.
import * as chat from "./chat.js";
import * as monitor from "./monitor.js";
import * as store from "./store.js";
import { getJson } from "./api.js";

const $ = (id) => document.getElementById(id);

/* ---- light and dark ----------------------------------------------------------------------------- */

const dark = matchMedia("(prefers-color-scheme: dark)");
function theme(value) {
  document.documentElement.dataset.theme = value || (dark.matches ? "dark" : "light");
}
let chosen = null;
try { chosen = localStorage.getItem("hayate.theme"); } catch { /* no storage: the system's */ }
theme(chosen);
dark.addEventListener("change", () => { if (!chosen) theme(null); });
$("theme").addEventListener("click", () => {
  chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("hayate.theme", chosen); } catch { /* kept for this visit */ }
  theme(chosen);
});

/* ---- tabs --------------------------------------------------------------------------------------- */

const views = ["chat", "monitor"];
function view(name) {
  for (const v of views) {
    $("tab-" + v).setAttribute("aria-selected", String(v === name));
    $("tab-" + v).tabIndex = v === name ? 0 : -1;
    $("view-" + v).hidden = v !== name;
  }
  $("tip").hidden = true;
  $("side").classList.remove("open");
  $("menu").setAttribute("aria-expanded", "false");
  if (name === "monitor") monitor.start();
  else monitor.stop();
  if (location.hash !== "#" + name) history.replaceState(null, "", "#" + name);
}
for (const v of views) $("tab-" + v).addEventListener("click", () => view(v));
document.querySelector(".tabs").addEventListener("keydown", (e) => {
  if (e.key !== "ArrowLeft" && e.key !== "ArrowRight") return;
  const next = views.find((v) => $("tab-" + v).getAttribute("aria-selected") !== "true");
  view(next);
  $("tab-" + next).focus();
});

/* ---- settings ----------------------------------------------------------------------------------- */

function drawSettings() {
  $("fields").replaceChildren(...store.FIELDS.map((f) => {
    const label = document.createElement("label"), box = document.createElement(f.kind === "text" ? "textarea" : "input");
    box.id = "set-" + f.id;
    label.className = (f.full ? "full " : "") + (f.kind === "check" ? "check" : "");
    if (f.kind === "check") {
      box.type = "checkbox";
      box.checked = store.settings[f.id];
      label.append(box, f.label);
    } else {
      if (f.kind === "number") Object.assign(box, { type: "number", min: f.min, max: f.max, step: f.step });
      if (f.kind === "password") Object.assign(box, { type: "password", autocomplete: "off" });
      box.value = store.settings[f.id] ?? "";
      label.append(f.label, box);
    }
    box.addEventListener("change", () => {
      if (!box.checkValidity()) return box.reportValidity();
      store.settings[f.id] = f.kind === "check" ? box.checked : f.kind !== "number" ? box.value : box.value === "" ? f.value : +box.value;
      store.saveSettings();
      if (f.id === "key") about();
    });
    return label;
  }));
}
$("settings-open").addEventListener("click", () => { drawSettings(); $("settings").showModal(); });
$("settings-reset").addEventListener("click", () => {
  Object.assign(store.settings, store.defaults(), { key: store.settings.key });
  store.saveSettings();
  drawSettings();
});

/* ---- writing ------------------------------------------------------------------------------------ */

const input = $("input");
const fit = () => { input.style.height = "auto"; input.style.height = input.scrollHeight + 2 + "px"; };
input.addEventListener("input", fit);
input.addEventListener("keydown", (e) => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
    e.preventDefault();
    $("compose").requestSubmit();
  }
});
$("compose").addEventListener("submit", (e) => {
  e.preventDefault();
  if ($("send").hidden || !input.value.trim()) return;
  const text = input.value;
  input.value = "";
  fit();
  chat.send(text);
});
$("stop").addEventListener("click", chat.stop);
$("new").addEventListener("click", chat.fresh);
$("menu").addEventListener("click", () => {
  const open = $("side").classList.toggle("open");
  $("menu").setAttribute("aria-expanded", String(open));
});
addEventListener("keydown", (e) => {
  if (e.key === "Escape" && !$("settings").open) chat.stop();
  if (e.key === "k" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); view("chat"); chat.fresh(); }
  if (e.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName) && !$("settings").open) {
    e.preventDefault();
    view("chat");
    input.focus();
  }
});

/* ---- begin -------------------------------------------------------------------------------------- */

async function about() {
  try {
    const list = await getJson("/v1/models");
    $("model").textContent = list.data.map((m) => m.id).join(", ");
    chat.notice("");
  } catch (e) {
    $("model").textContent = "";
    chat.notice(e.message || String(e));
  }
}
const named = () => views.includes(location.hash.slice(1)) ? location.hash.slice(1) : "chat";
chat.open(store.conversations[0] || store.add());
about();
view(named());
addEventListener("hashchange", () => view(named()));
