// Text and numbers of the page: formats, and rows of tables.
"use strict";

const $ = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = (x) => Number(x).toLocaleString("en", { maximumSignificantDigits: 4 });
const percent = (x) => `${(100 * x).toFixed(1)} %`;

function at(value) {
  if (value === null || value === undefined) return "–";
  if (!model.about.timed || typeof value === "number") return String(value);
  return String(value).replace("T", " ").replace(/(\.\d{3})\d*/, "$1").replace("Z", "");
}

function span(seconds) {
  if (!model.about.timed) return short(seconds);
  const size = Math.abs(seconds);
  if (size < 1) return `${Math.round(seconds * 1000)} ms`;
  if (size < 120) return `${seconds.toFixed(1)} s`;
  if (size < 7200) return `${(seconds / 60).toFixed(1)} min`;
  return size < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86400).toFixed(1)} d`;
}

function bytes(n) {
  const units = ["B", "kB", "MB", "GB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) { n /= 1000; i += 1; }
  return `${n.toFixed(i && n < 100 ? 1 : 0)} ${units[i]}`;
}

const moment = (seconds) => (model.about.timed ? new Date(seconds * 1000).toISOString().replace("T", " ").replace(/\.?0*Z$/, "") : short(seconds));
const clock_time = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);

function row(cells, kind = "") {
  const tr = document.createElement("tr");
  if (kind) tr.className = kind;
  for (const [tag, text, name] of cells) {
    const cell = document.createElement(tag);
    cell.textContent = text;
    if (name) cell.className = name;
    if (tag === "th") cell.scope = "row";
    tr.append(cell);
  }
  return tr;
}

function heads(names, kinds = []) {
  const tr = document.createElement("tr");
  names.forEach((name, i) => {
    const th = document.createElement("th");
    th.scope = "col";
    th.textContent = name;
    th.className = kinds[i] || "";
    tr.append(th);
  });
  return tr;
}

function fill(body, rows) { body.replaceChildren(...rows); }
