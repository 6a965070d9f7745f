// The page of a running query: it hears of every epoch and draws what is new, at most once a frame.
"use strict";

const MOMENTS = 1200, ROWS = 30, WINDOWS = 240, LATE_MARKS = 300;
const token = new URLSearchParams(location.search).get("token") || "";
const $ = (id) => document.getElementById(id);

const seen = { about: null, status: null, moments: [], rows: [], late: [], lateMarks: [], groups: new Map(), epoch: -1, otherGroups: 0 };
const charts = {};
let drawing = false;

// -- hearing ---------------------------------------------------------------------------------------

function listen() {
  const source = new EventSource(`events?token=${encodeURIComponent(token)}`);
  source.onmessage = (message) => { take(JSON.parse(message.data)); };
  source.onerror = () => { if (!seen.status?.ended) show_state("lost", "connection lost"); };
}

function take(event) {
  if (event.whole) begin(event);
  else if (event.status.epoch <= seen.epoch) return;
  if (event.status) { seen.status = event.status; seen.epoch = event.status.epoch; }
  seen.otherGroups = event.otherGroups;
  append(seen.moments, event.moments, MOMENTS);
  append(seen.rows, event.rows, ROWS);
  append(seen.late, event.late, ROWS);
  append(seen.lateMarks, event.lateMarks, LATE_MARKS);
  event.points.forEach(put);
  soon();
}

function begin(event) {
  Object.assign(seen, { about: event.about, moments: [], rows: [], late: [], lateMarks: [], groups: new Map(), epoch: -1 });
  document.title = $("title").textContent = event.about.title;
  $("plan").innerHTML = event.about.picture;  // made by the server from the plan, its texts escaped
  options($("value"), event.about.values);
  $("controls").hidden = !event.about.controls;
  $("aggressive").hidden = !event.about.controls || event.aggressiveness === null;
  if (event.aggressiveness !== null) { $("share").value = event.aggressiveness; say_share(); }
  $("accuracy-card").hidden = !event.about.prodded;
}

function append(list, more, most) {
  list.push(...more);
  if (list.length > most) list.splice(0, list.length - most);
}

function put(point) {
  if (!seen.groups.has(point.group)) seen.groups.set(point.group, new Map());
  const windows = seen.groups.get(point.group);
  const at = windows.get(point.end) || {};
  at[point.kind] = point;
  windows.set(point.end, at);
  if (windows.size > WINDOWS) {
    const ends = [...windows.keys()].sort((a, b) => a - b);
    ends.slice(0, ends.length - WINDOWS).forEach((end) => windows.delete(end));
  }
}

// -- words -----------------------------------------------------------------------------------------

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = (x) => Number(x).toLocaleString("en", { maximumSignificantDigits: 4 });
const percent = (x) => `${(100 * x).toFixed(1)} %`;

function at(value) {
  if (value === null || value === undefined) return "–";
  if (!seen.about.timed || typeof value === "number") return String(value);
  return String(value).replace("T", " ").replace(/(\.\d{3})\d*/, "$1").replace("Z", "");
}

function span(seconds) {
  if (!seen.about.timed) return short(seconds);
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

function show_state(name, text) {
  if ($("state").dataset.state !== name) { $("state").dataset.state = name; $("state").textContent = text; }
}

function options(select, names) {
  const before = select.value;
  if ([...select.options].map((o) => o.value).join("\n") === names.join("\n")) return;
  select.replaceChildren(...names.map((name) => new Option(name === "" ? "(all)" : name, name)));
  if (names.includes(before)) select.value = before;
}

// -- drawing ---------------------------------------------------------------------------------------

function soon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; draw(); });
}

function draw() {
  if (!seen.about) return;
  draw_figures();
  draw_results();
  draw_progress();
  draw_late();
  draw_accuracy();
  draw_counts();
  draw_tables();
}

function draw_figures() {
  const s = seen.status;
  if (!s) { show_state("waiting", "waiting for the first epoch"); return; }
  show_state(s.ended ? "ended" : "running", s.ended ? "ended" : "running");
  $("epoch").textContent = whole.format(s.epoch);
  if (s.rate) $("rate").textContent = whole.format(s.rate);  // epochs without rows say nothing of it
  $("lwm").textContent = s.ended ? "end of stream" : at(s.lwm);
  $("newest").textContent = at(s.newest);
  $("kept").textContent = bytes(s.bytes);
  $("refresh").disabled = s.ended || !seen.about.prodded;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function chart(name, series, { x_timed = true, y_timed = false, y_size = 62, y_values, hooks = {}, range } = {}) {
  const place = $(`chart-${name}`);
  const axis = (more) => ({ stroke: () => colour("faint"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { stroke: () => colour("line"), width: 1 }, ...more });
  const size = () => ({ width: Math.max(200, place.clientWidth), height: place.clientHeight });
  const made = new uPlot({
    ...size(),
    tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "Etc/UTC"),
    scales: { x: { time: x_timed }, y: { time: y_timed, ...(range ? { range } : {}) } },
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    axes: [axis(x_timed ? { values: clock(true), space: 90 } : {}), axis({ size: y_size, ...(y_timed ? { values: clock(false) } : y_values ? { values: y_values } : {}) })],
    series: [{}, ...series],
    hooks,
  }, [[], ...series.map(() => [])], place);
  new ResizeObserver(() => made.setSize(size())).observe(place);
  return made;
}

// Times in UTC, to the second where they are near each other; the day where it begins, or is new.
function clock(with_day) {
  return (u, splits, axis, space, step) => {
    let before = "";
    return splits.map((t) => {
      const [day, time] = new Date(t * 1000).toISOString().split("T");
      const shown = step >= 86400 ? day : step < 1 ? time.slice(0, 10) : time.slice(0, step < 60 ? 8 : 5);
      const fresh = with_day && day !== before && step < 86400;
      before = day;
      return fresh ? `${shown}\n${day}` : shown;
    });
  };
}

function line(name, more = {}) {
  return { stroke: () => colour(name), width: 2, points: { show: false }, ...more };
}

function results_of(value, group) {
  const windows = seen.groups.get(group) || new Map();
  const ends = [...windows.keys()].sort((a, b) => a - b);
  // Where a window is missing (nothing came, or it was shed) the line has a gap.
  const steps = ends.slice(1).map((e, i) => e - ends[i]).sort((a, b) => a - b);
  const step = steps.length ? steps[0] : 0;
  const x = [], final = [], early = [], low = [], high = [];
  ends.forEach((end, i) => {
    if (i && step && end - ends[i - 1] > 1.5 * step) {
      x.push(ends[i - 1] + step);
      [final, early, low, high].forEach((list) => list.push(null));
    }
    const { final: f, early: e } = windows.get(end);
    x.push(end);
    final.push(f ? f.values[value] : undefined);
    early.push(e ? e.values[value] : undefined);
    const [lo, hi] = e?.intervals[value] || [null, null];
    low.push(lo);
    high.push(hi);
  });
  return [x, final, early, low, high];
}

function draw_intervals(u) {
  const [xs, , , low, high] = u.data;
  u.ctx.save();
  u.ctx.strokeStyle = colour("early");
  u.ctx.lineWidth = 2 * devicePixelRatio;
  u.ctx.globalAlpha = 0.45;
  u.ctx.beginPath();
  xs.forEach((x, i) => {
    if (low[i] == null || high[i] == null) return;
    const at = u.valToPos(x, "x", true);
    if (at < u.bbox.left || at > u.bbox.left + u.bbox.width) return;
    u.ctx.moveTo(at, u.valToPos(low[i], "y", true));
    u.ctx.lineTo(at, u.valToPos(high[i], "y", true));
  });
  u.ctx.stroke();
  u.ctx.restore();
}

function draw_results() {
  const names = [...seen.groups.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  options($("group"), names);
  $("by").hidden = !seen.about.keys.length;
  const value = $("value").value, group = $("group").value;
  if (!value || !names.length) return;
  if (!charts.results) {
    const none = { stroke: "transparent", points: { show: false } };
    const dot = { stroke: () => colour("early"), width: 0, paths: () => null, points: { show: true, size: 9, width: 2, stroke: () => colour("early"), fill: () => colour("card") } };
    // A window that has no final yet is not a gap.
    charts.results = chart("results", [line("final", { spanGaps: false, points: { show: true, size: 4, fill: () => colour("final") } }), dot, none, none], { x_timed: seen.about.timed, hooks: { draw: [draw_intervals] } });
  }
  const data = results_of(value, group);
  charts.results.series[2].points.size = data[0].length > 60 ? 6 : 9;
  charts.results.setData(data);
  const finals = data[1].filter((v) => v != null), early = data[2].filter((v) => v != null);
  const last = finals.length ? `, the newest ${short(finals[finals.length - 1])}` : "";
  const of = group ? `${value} for ${group}` : value;
  $("chart-results").setAttribute("aria-label", `${of}: ${finals.length} finals${last}, ${early.length} windows with early results`);
}

function draw_progress() {
  const m = seen.moments;
  if (!m.length) return;
  const x = m.map((p) => p.wall), newest = m.map((p) => p.newest), lwm = m.map((p) => p.lwm);
  const last = m[m.length - 1];
  const live = seen.about.timed && last.newest !== null && Math.abs(last.wall - last.newest) < 3600;
  if (!charts.progress)
    charts.progress = chart("progress", [line("newest"), line("mark"), line("clock", { width: 1, dash: [3, 4] })], { y_timed: seen.about.timed, y_size: 74 });
  charts.progress.setData([x, newest, lwm, live ? x : x.map(() => null)]);
  $("clock-legend").hidden = !live;
  const parts = [];
  if (last.newest !== null && last.lwm !== null) parts.push(`the mark is ${span(last.newest - last.lwm)} behind the newest event`);
  if (live) parts.push(`the newest event is ${span(last.wall - last.newest)} behind the wall clock`);
  $("progress-said").textContent = seen.status?.ended ? "the stream has ended" : parts.join("; ");
  $("chart-progress").setAttribute("aria-label", `Low-water mark and newest event by the wall clock: ${parts.join("; ") || "no mark yet"}`);
}

function draw_late() {
  const m = seen.moments;
  if (!m.length) return;
  const begun = m[0].wall;
  const marks = seen.lateMarks.filter(([wall]) => wall >= begun);
  const all = [...m.map((p) => [p.wall, p.newest === null || p.lwm === null ? undefined : p.newest - p.lwm, undefined]), ...marks.map(([wall, by]) => [wall, undefined, by])];
  all.sort((a, b) => a[0] - b[0]);
  if (!charts.late) {
    const cross = { stroke: () => colour("late"), width: 0, paths: () => null, points: { show: true, size: 6, stroke: () => colour("late"), fill: () => colour("late") } };
    charts.late = chart("late", [line("mark", { spanGaps: true }), cross], { y_values: (u, splits) => splits.map(span), range: (u, low, high) => [0, Math.max(high * 1.1, 1e-3)] });
  }
  charts.late.setData([all.map((p) => p[0]), all.map((p) => p[1]), all.map((p) => p[2])]);
  const c = seen.status?.counts || {};
  const told = `${whole.format(c.late || 0)} rows missed all their windows, ${whole.format(c.partly_late || 0)} missed some`;
  $("late-said").textContent = told;
  $("chart-late").setAttribute("aria-label", `How long is waited for late rows, and how late those were that came too late: ${told}`);
}

const accuracy_colours = ["final", "early", "mark", "late"];

function draw_accuracy() {
  if (!seen.about.prodded || !seen.status) return;
  const names = Object.keys(seen.status.accuracy).slice(0, accuracy_colours.length);
  const p = seen.status.prods;
  $("prods-said").textContent = `${whole.format(p.asked || 0)} prods asked, ${whole.format(p.answered || 0)} answered with ${whole.format(p.early || 0)} early rows, ${whole.format(p.empty || 0)} found nothing` +
    names.map((n) => `; ${n}: mean ${percent(seen.status.accuracy[n].mean)}, worst ${percent(seen.status.accuracy[n].worst)} of ${whole.format(seen.status.accuracy[n].count)}`).join("");
  if (!names.length) return;
  const key = names.join("\n");
  if (charts.accuracy && charts.accuracy_of !== key) { charts.accuracy.destroy(); charts.accuracy = null; }
  if (!charts.accuracy) {
    charts.accuracy_of = key;
    charts.accuracy = chart("accuracy", names.map((_, i) => line(accuracy_colours[i])), { range: (u, low) => [Math.min(0.9, Math.max(0, low - 0.02)), 1] });
    $("accuracy-legend").replaceChildren(...names.flatMap((n, i) => {
      const mark = document.createElement("i");
      mark.className = "line";
      mark.style.borderColor = `var(--${accuracy_colours[i]})`;
      return [mark, n];
    }));
  }
  charts.accuracy.setData([seen.moments.map((m) => m.wall), ...names.map((n) => seen.moments.map((m) => m.accuracy[n] ?? null))]);
  $("chart-accuracy").setAttribute("aria-label", `Accuracy of late: ${names.map((n) => `${n} ${percent(seen.status.accuracy[n].recent)}`).join(", ")}`);
}

const ACCOUNTS = ["admitted", "late", "outside", "malformed", "shed", "sidelined"];

function draw_counts() {
  if (!seen.status) return;
  const c = seen.status.counts;
  const lines = [...ACCOUNTS.map((name, i) => [i ? `+ ${name}` : name, c[name], ""]), ["= in", c.in, "sum"], ["final results", seen.status.results, ""]];
  fill($("counts"), lines.map(([name, n, kind]) => row([["th", name], ["td", whole.format(n ?? 0), "number"]], kind)));
  const sum = ACCOUNTS.reduce((total, name) => total + (c[name] || 0), 0);
  $("balance").textContent = sum === c.in && seen.status.balanced ? "✓ the counts add up" : `✗ ${whole.format(sum)} are accounted for`;
  $("more").replaceChildren(...Object.entries(seen.status.more).map(([name, value]) => {
    const part = document.createElement("div");
    const head = document.createElement("h3");
    head.textContent = name.replaceAll("_", " ");
    const told = document.createElement("p");
    told.className = "note";
    told.textContent = leaves(value).map(([k, v]) => `${k}${typeof v === "number" ? short(v) : v}`).join(", ");
    part.append(head, told);
    return part;
  }));
}

function leaves(value, path = "") {
  if (value !== null && typeof value === "object")
    return Object.entries(value).slice(0, 12).flatMap(([k, v]) => leaves(v, Array.isArray(value) ? path : `${path}${k} `));
  return [[path, value]];
}

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

function fill(body, rows) { body.replaceChildren(...rows); }

function draw_tables() {
  const newest = seen.rows.slice().reverse();
  if (newest.length) {
    const columns = Object.keys(newest[0]);
    const number = (text) => (/^[-\d.,e+]+( \(.*\))?$/.test(text) ? "number" : "");
    const kinds = columns.map((c) => number(newest[0][c]));
    const head = document.createElement("tr");
    columns.forEach((c, i) => {
      const th = document.createElement("th");
      th.scope = "col";
      th.textContent = c;
      th.className = kinds[i];
      head.append(th);
    });
    fill($("rows-head"), [head]);
    fill($("rows"), newest.map((r) => row(columns.map((c, i) => ["td", r[c] ?? "", kinds[i]]), r.kind === "early" ? "early" : "")));
  }
  const late = seen.late.slice().reverse();
  fill($("late-rows"), late.length ? late.map((r) => row([["td", r["late by"] === null ? "–" : span(r["late by"]), "number"], ["td", r.missed + (r.partly ? ", entered others" : "")], ["td", r.row]])) : [row([["td", "none"], ["td", ""], ["td", ""]])]);
}

// -- asking ----------------------------------------------------------------------------------------

async function ask(path, body) {
  try {
    const answer = await fetch(path, { method: "POST", headers: { "X-Lowwater-Token": token, "Content-Type": "application/json" }, body: JSON.stringify(body) });
    $("said").textContent = (await answer.text()).trim();
  } catch {
    $("said").textContent = "The run cannot be reached.";
  }
}

function say_share() { $("share-said").textContent = `${Math.round(100 * $("share").value)} %`; }

$("refresh").addEventListener("click", () => ask("prod", {}));
$("share").addEventListener("input", say_share);
$("share").addEventListener("change", () => ask("retune", { aggressiveness: Number($("share").value) }));
$("value").addEventListener("change", soon);
$("group").addEventListener("change", soon);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const name of ["results", "progress", "late", "accuracy"]) charts[name]?.redraw();
});
listen();
