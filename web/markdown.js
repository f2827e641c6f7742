// Markdown to DOM nodes: never HTML from text, so nothing that a model writes can run or load anything.
// Blocks: headings, fences, lists, quotes, tables, rules, paragraphs. Inline: code, bold, italic, strike, links.

const el = (tag, ...kids) => {
  const n = document.createElement(tag);
  n.append(...kids);
  return n;
};

// An address is followed only to the web or to mail; anything else stays text.
const safeLink = (s) => /^(https?:\/\/|mailto:)/i.test(s) ? s : null;

const INLINE = /(`+)([\s\S]*?[^`])\1(?!`)|\[([^\[\]\n]+)\]\(([^()\s]+)\)|(\*\*|__)(?=\S)([\s\S]*?\S)\5|(\*|_)(?=\S)([\s\S]*?\S)\7|~~(?=\S)([\s\S]*?\S)~~|(https?:\/\/[^\s<>()]+[^\s<>().,;:!?'"])/;

function inline(text, depth = 0) {
  const out = [];
  while (text) {
    const m = depth < 12 ? INLINE.exec(text) : null;
    if (!m) { out.push(text); break; }
    if (m.index) out.push(text.slice(0, m.index));
    let node;
    const before = m.index ? text[m.index - 1] : "";
    if (m[1]) node = el("code", m[2].trim());
    else if (m[3]) node = link(m[4], inline(m[3], depth + 1)) || m[0];
    else if (m[6]) node = el("strong", ...inline(m[6], depth + 1));
    else if (m[8]) node = m[7] === "_" && /\w/.test(before) ? m[0] : el("em", ...inline(m[8], depth + 1));
    else if (m[9]) node = el("s", ...inline(m[9], depth + 1));
    else node = link(m[10], [m[10]]);
    out.push(node);
    text = text.slice(m.index + m[0].length);
  }
  return out;
}

function link(href, kids) {
  if (!safeLink(href)) return null;
  const a = el("a", ...kids);
  a.href = href;
  a.rel = "noopener noreferrer nofollow";
  a.target = "_blank";
  return a;
}

function lines(text) {
  const out = [];
  text.split("\n").forEach((line, i) => {
    if (i) out.push(el("br"));
    out.push(...inline(line));
  });
  return out;
}

const FENCE = /^ {0,3}(```+|~~~+)\s*([^\s`]*)/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const cells = (row) => row.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((c) => c.replace(/\\\|/g, "|").trim());

function codeBlock(code) {
  const button = el("button", "Copy");
  button.type = "button";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(code);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1200);
  });
  return el("pre", el("code", code), button);
}

function list(rows, depth) {
  const ordered = /\d/.test(ITEM.exec(rows[0])[2]);
  const root = el(ordered ? "ol" : "ul");
  const base = ITEM.exec(rows[0])[1].length;
  if (ordered) root.start = parseInt(ITEM.exec(rows[0])[2], 10);
  let item = null, inner = [];
  const close = () => {
    if (!item) return;
    if (inner.length) item.append(...blocks(inner.join("\n"), depth + 1));
    inner = [];
  };
  for (const row of rows) {
    const m = ITEM.exec(row);
    if (m && m[1].length <= base + 1) {
      close();
      item = el("li", ...inline(m[3]));
      root.append(item);
    } else {
      inner.push(row.slice(Math.min(base + 2, row.length - row.trimStart().length)));
    }
  }
  close();
  return root;
}

function table(rows) {
  const head = el("tr", ...cells(rows[0]).map((c) => el("th", ...inline(c))));
  const body = rows.slice(2).map((r) => el("tr", ...cells(r).map((c) => el("td", ...inline(c)))));
  return el("table", el("thead", head), el("tbody", ...body));
}

function blocks(text, depth = 0) {
  if (depth > 8) return [el("p", text)];
  const rows = text.split("\n"), out = [];
  for (let i = 0; i < rows.length;) {
    const row = rows[i];
    const take = (test) => { const from = i; while (i < rows.length && test(rows[i])) i++; return rows.slice(from, i); };
    const fence = FENCE.exec(row);
    if (!row.trim()) { i++; continue; }
    if (fence) {
      const code = [];
      for (i++; i < rows.length && !rows[i].trim().startsWith(fence[1]); i++) code.push(rows[i]);
      i++;
      out.push(codeBlock(code.join("\n")));
    } else if (/^#{1,6}\s/.test(row)) {
      const level = /^#+/.exec(row)[0].length;
      out.push(el("h" + Math.min(6, level + 1), ...inline(row.slice(level).replace(/\s#+\s*$/, "").trim())));
      i++;
    } else if (/^ {0,3}([-*_])( *\1){2,} *$/.test(row)) {
      out.push(el("hr"));
      i++;
    } else if (/^ {0,3}>/.test(row)) {
      const quoted = take((r) => /^ {0,3}>/.test(r)).map((r) => r.replace(/^ {0,3}> ?/, ""));
      out.push(el("blockquote", ...blocks(quoted.join("\n"), depth + 1)));
    } else if (ITEM.test(row)) {
      out.push(list(take((r) => ITEM.test(r) || /^\s+\S/.test(r)), depth));
    } else if (row.includes("|") && /^[\s|:-]*-[\s|:-]*$/.test(rows[i + 1] || "") && (rows[i + 1] || "").includes("-")) {
      out.push(table(take((r) => r.includes("|"))));
    } else {
      const from = i++;
      while (i < rows.length && rows[i].trim() && !FENCE.test(rows[i]) && !/^#{1,6}\s/.test(rows[i]) && !ITEM.test(rows[i]) &&
             !/^ {0,3}>/.test(rows[i])) i++;
      out.push(el("p", ...lines(rows.slice(from, i).join("\n"))));
    }
  }
  return out;
}

export const render = (text) => blocks(text.replace(/\r\n?/g, "\n"));
