// Small plots on canvas, in the page's own colours.

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function surface(canvas, height) {
  const width = canvas.clientWidth || 300, ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = height + "px";
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return [g, width, height];
}

export const short = (v) => v >= 1e9 ? (v / 1e9).toFixed(1) + "G" : v >= 1e6 ? (v / 1e6).toFixed(1) + "M"
  : v >= 1e4 ? (v / 1e3).toFixed(0) + "k" : v >= 1e3 ? (v / 1e3).toFixed(1) + "k" : v >= 10 || v === 0 ? v.toFixed(0) : v.toFixed(1);

// series: [{ values: [number | null], colour: "--c1", fill }], all of one length; the newest is at the right.
export function lines(canvas, series, { height = 96, unit = "", length = 120 } = {}) {
  const [g, w, h] = surface(canvas, height);
  const top = Math.max(...series.flatMap((s) => s.values.filter((v) => v != null)), 1e-9) * 1.1;
  g.font = "11px system-ui, sans-serif";
  g.fillStyle = colour("--soft");
  g.strokeStyle = colour("--line");
  for (const part of [0, 0.5, 1]) {
    const y = Math.round(h - 14 - part * (h - 24)) + 0.5;
    g.beginPath();
    g.moveTo(0, y);
    g.lineTo(w, y);
    g.stroke();
    if (part) g.fillText(short(top * part) + unit, 2, y + 11);
  }
  g.fillText(length + " s ago", 2, h - 2);
  g.textAlign = "right";
  g.fillText("now", w - 2, h - 2);
  g.textAlign = "left";
  for (const s of series) {
    const x = (i) => w - (s.values.length - 1 - i) * (w / (length - 1)), y = (v) => h - 14 - v / top * (h - 24);
    g.strokeStyle = g.fillStyle = colour(s.colour);
    g.lineWidth = 1.8;
    g.beginPath();
    let open = false, first = 0, last = 0;
    s.values.forEach((v, i) => {
      if (v == null) { open = false; return; }
      if (!open) { g.moveTo(x(i), y(v)); first = i; } else g.lineTo(x(i), y(v));
      open = true;
      last = i;
    });
    g.stroke();
    if (s.fill && open) {
      g.lineTo(x(last), h - 14);
      g.lineTo(x(first), h - 14);
      g.globalAlpha = 0.13;
      g.fill();
      g.globalAlpha = 1;
    }
  }
}

// One square a page, or a mean of several where there are more pages than room.
export function pages(canvas, map) {
  const width = canvas.clientWidth || 600, cell = map.length > 4096 ? 6 : 9, columns = Math.max(1, Math.floor(width / cell));
  const most = columns * 40, each = Math.max(1, Math.ceil(map.length / most)), n = Math.ceil(map.length / each);
  const [g] = surface(canvas, Math.max(1, Math.ceil(n / columns)) * cell);
  const paint = ["--k0", "--k1", "--k2", "--k3"].map(colour);
  for (let i = 0; i < n; i++) {
    let state = 0;
    for (let k = i * each; k < Math.min(map.length, (i + 1) * each); k++) {
      const s = +map[k];
      if (s && (state === 0 || state === 3 || s === 2)) state = s;
    }
    g.fillStyle = paint[state];
    g.fillRect(i % columns * cell, Math.floor(i / columns) * cell, cell - 1.5, cell - 1.5);
  }
  return each;
}
