// The charts. Each chart has a text label, and a table of its newest points.
"use strict";

const charts = {};
const TABLE_ROWS = 12;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function chart(name, series, { x_timed = true, y_timed = false, y_log = false, x_values, y_size = 62, y_values, y_steps, hooks = {}, range } = {}) {
  const place = $(`chart-${name}`);
  const axis = (more) => ({ stroke: () => colour("faint"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { stroke: () => colour("line"), width: 1 }, ...more });
  const size = () => ({ width: Math.max(200, place.clientWidth), height: place.clientHeight });
  const made = new uPlot({
    ...size(),
    tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "Etc/UTC"),
    scales: { x: { time: x_timed, ...(x_values ? { range: (u, low, high) => [low - 0.3, high + 0.3] } : {}) }, y: { time: y_timed, ...(y_log ? { distr: 3 } : {}), ...(range ? { range } : {}) } },
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    axes: [axis(x_timed ? { values: clock(true), space: 90 } : x_values ? { values: x_values, incrs: [1, 2, 5], space: 60 } : {}), axis({ size: y_size, ...(y_timed ? { values: clock(false) } : y_values ? { values: y_values } : {}), ...(y_steps ? { incrs: y_steps } : {}) })],
    series: [{}, ...series],
    hooks,
  }, [[], ...series.map(() => [])], place);
  new ResizeObserver(() => made.setSize(size())).observe(place);
  return made;
}

// Labels of a time axis in UTC. With with_day, the first label of each day has the date below the time.
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

// An axis of durations: its steps are round numbers of seconds, minutes, hours or days, for short labels.
const SPANS = [
  ...[0.001, 0.01, 0.1, 1, 10].flatMap((unit) => [1, 2, 5].map((n) => n * unit)).filter((step) => step <= 20),
  ...[30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200],
  ...[1, 10, 100, 1000, 10000].flatMap((days) => [1, 2, 5].map((n) => n * days * 86400)),
];
const spans = () => ({ y_values: (u, splits) => splits.map((v) => span(v).replace(".0 ", " ")), ...(model.about.timed ? { y_steps: SPANS } : {}), range: (u, low, high) => [0, Math.max(high * 1.1, 1e-3)] });

function line(name, more = {}) {
  return { stroke: () => colour(name), width: 2, points: { show: false }, ...more };
}

// Fill the table of a chart, if the table is open, with the newest points: the newest first.
function fill_table(name, columns, rows) {
  const place = $(`table-${name}`);
  if (!place.dataset.ready) {
    place.dataset.ready = "yes";
    place.addEventListener("toggle", schedule_draw);
  }
  if (!place.open) return;
  const table = document.createElement("table"), head = document.createElement("thead"), body = document.createElement("tbody");
  head.append(heads(columns, columns.map((_, i) => (i ? "number" : ""))));
  fill(body, rows().slice(-TABLE_ROWS).reverse().map((cells) => row(cells.map((text, i) => [i ? "td" : "th", text ?? "–", i ? "number" : ""]))));
  table.append(head, body);
  place.querySelector("div").replaceChildren(table);
}

function label(name, text) {
  const place = $(`chart-${name}`);
  if (place.getAttribute("aria-label") !== text) place.setAttribute("aria-label", text);
}

const dots = (name, size) => ({ stroke: () => colour(name), width: 0, paths: () => null, points: { show: true, size, width: 2, stroke: () => colour(name), fill: () => colour("card") } });
const hidden_line = { stroke: "transparent", points: { show: false } };

// -- results ---------------------------------------------------------------------------------------

function results_of(value, group) {
  const windows = model.groups.get(group) || new Map();
  const ends = [...windows.keys()].sort((a, b) => a - b);
  // The line has a gap if a window is missing: it had no rows, or was dropped.
  const steps = ends.slice(1).map((e, i) => e - ends[i]).sort((a, b) => a - b);
  const step = steps.length ? steps[0] : 0;
  const x = [], final = [], early = [], low = [], high = [], filled = [];
  ends.forEach((end, i) => {
    if (i && step && end - ends[i - 1] > 1.5 * step) {
      x.push(ends[i - 1] + step);
      [final, early, low, high, filled].forEach((list) => list.push(null));
    }
    const { final: f, early: e, filled: g } = windows.get(end);
    x.push(end);
    // A dropped window is a gap in the line, even if it has a filled value.
    final.push(f ? f.values[value] : g ? null : undefined);
    filled.push(g ? g.values[value] : undefined);
    early.push(e ? e.values[value] : undefined);
    const [lo, hi] = e?.intervals[value] || [null, null];
    low.push(lo);
    high.push(hi);
  });
  return [x, final, early, low, high, filled];
}

// One very wide interval must not flatten all other results.
function results_range(u) {
  const known = (list) => (list || []).filter((v) => v != null);
  const shown = [u.data[1], u.data[2], u.data[5]].flatMap(known);
  if (!shown.length) return [0, 1];
  const least = Math.min(...shown), most = Math.max(...shown), room = most - least || Math.abs(most) || 1;
  const low = Math.max(least - room / 2, Math.min(least, ...known(u.data[3])));
  const high = Math.min(most + room / 2, Math.max(most, ...known(u.data[4])));
  return uPlot.rangeNum(low, high, 0.05, true);
}

function draw_dropped(u) {
  if (!model.dropped.length) return;
  u.ctx.save();
  u.ctx.fillStyle = colour("dropped");
  u.ctx.globalAlpha = 0.22;
  const { left, top, width, height } = u.bbox;
  for (const [start, end] of dropped_intervals()) {
    const a = Math.max(left, u.valToPos(start, "x", true)), b = Math.min(left + width, u.valToPos(end, "x", true));
    if (b > a) u.ctx.fillRect(a, top, Math.max(b - a, devicePixelRatio), height);
  }
  u.ctx.restore();
}

// A result is drawn at the end of its window, so a dropped window is shaded one slide wide around its end.
function dropped_intervals() {
  const found = [];
  for (const [end, slide] of model.dropped) {
    const last = found[found.length - 1], start = end - slide / 2;
    if (last && Math.abs(last[1] - start) < slide / 4) last[1] = end + slide / 2;
    else found.push([start, end + slide / 2]);
  }
  return found;
}

function draw_intervals(u) {
  const [xs, , , low, high] = u.data;
  u.ctx.save();
  u.ctx.strokeStyle = colour("early");
  u.ctx.lineWidth = 2 * devicePixelRatio;
  u.ctx.globalAlpha = 0.45;
  u.ctx.beginPath();
  u.ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  u.ctx.clip();
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
  const names = [...model.groups.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  options($("group"), names);
  $("by").hidden = !model.about.keys.length;
  const value = $("value").value, group = $("group").value;
  $("dropped-legend").hidden = !model.about.sheds;
  $("early-legend").hidden = !model.about.early;
  if (!value || !names.length) return;
  if (!charts.results) {
    const final = line("final", { spanGaps: false, points: { show: true, size: 4, fill: () => colour("final") } });
    // A window without a final result yet is not a gap.
    charts.results = chart("results", [final, dots("early", 9), hidden_line, hidden_line, dots("dropped", 5)], { x_timed: model.about.timed, range: results_range, hooks: { drawClear: [draw_dropped], draw: [draw_intervals] } });
  }
  const data = results_of(value, group);
  charts.results.series[2].points.size = data[0].length > 60 ? 6 : 9;
  charts.results.setData(data);
  const finals = data[1].filter((v) => v != null), early = data[2].filter((v) => v != null);
  const last = finals.length ? `, the newest ${short(finals[finals.length - 1])}` : "";
  const of = group ? `${value} for ${group}` : value;
  const more = model.about.early ? `, ${early.length} windows with early results` : "";
  const gaps = model.about.sheds ? `, ${model.dropped.length} windows dropped` : "";
  label("results", `${of}: ${finals.length} finals${last}${more}${gaps}`);
  fill_table("results", ["end of window", "final", "early", "from", "to"], () => results_table(data));
}

function results_table([x, final, early, low, high]) {
  const dropped = new Set(model.dropped.map(([end]) => end));
  const number = (v) => (v == null ? "–" : short(v));
  const known = x.map((end, i) => [end, dropped.has(end) ? "dropped" : number(final[i]), number(early[i]), number(low[i]), number(high[i])]).filter(([, f, e]) => f !== "–" || e !== "–");
  const shown = new Set(known.map(([end]) => end));
  const missing = [...dropped].filter((end) => !shown.has(end) && (!known.length || end >= known[0][0])).map((end) => [end, "dropped", "–", "–", "–"]);
  return [...known, ...missing].sort((a, b) => a[0] - b[0]).map(([end, ...rest]) => [moment(end), ...rest]);
}

// -- progress --------------------------------------------------------------------------------------

function draw_progress() {
  const m = model.moments;
  if (!m.length) return;
  const x = m.map((p) => p.wall), newest = m.map((p) => p.newest), watermark = m.map((p) => p.watermark);
  const last = m[m.length - 1];
  const live = model.about.timed && last.newest !== null && Math.abs(last.wall - last.newest) < 3600;
  if (!charts.progress)
    charts.progress = chart("progress", [line("newest"), line("watermark"), line("clock", { width: 1, dash: [3, 4] })], { y_timed: model.about.timed, y_size: 74 });
  charts.progress.setData([x, newest, watermark, live ? x : x.map(() => null)]);
  $("clock-legend").hidden = !live;
  const parts = [];
  if (last.newest !== null && last.watermark !== null) parts.push(`the watermark is ${span(last.newest - last.watermark)} behind the newest event`);
  if (live) parts.push(`the newest event is ${span(last.wall - last.newest)} behind the wall clock`);
  $("progress-text").textContent = model.status?.ended ? "the stream has ended" : parts.join("; ");
  label("progress", `Watermark and newest event by the wall clock: ${parts.join("; ") || "no watermark yet"}`);
  fill_table("progress", ["wall clock", "newest event", "watermark", "difference"], () => m.map((p) => [clock_time(p.wall), p.newest === null ? null : moment(p.newest), p.watermark === null ? null : moment(p.watermark), p.newest === null || p.watermark === null ? null : span(p.newest - p.watermark)]));
}

function draw_late() {
  const m = model.moments;
  if (!m.length) return;
  const start = m[0].wall;
  const points = model.latePoints.filter(([wall]) => wall >= start);
  const all = [...m.map((p) => [p.wall, p.newest === null || p.watermark === null ? undefined : p.newest - p.watermark, undefined]), ...points.map(([wall, by]) => [wall, undefined, by])];
  all.sort((a, b) => a[0] - b[0]);
  if (!charts.late) {
    const late = dots("late", 6);
    late.points.fill = () => colour("late");
    charts.late = chart("late", [line("watermark", { spanGaps: true }), late], spans());
  }
  charts.late.setData([all.map((p) => p[0]), all.map((p) => p[1]), all.map((p) => p[2])]);
  const c = model.status?.counts || {};
  const text = `${whole.format(c.late || 0)} rows missed all their windows, ${whole.format(c.partly_late || 0)} missed some`;
  $("late-text").textContent = text;
  label("late", `Wait for late rows, and lateness of late rows: ${text}`);
  fill_table("late", ["wall clock", "wait", "late by"], () => all.map(([wall, wait, by]) => [clock_time(wall), wait === undefined ? null : span(wait), by === undefined ? null : span(by)]));
}

// -- quality ---------------------------------------------------------------------------------------

// With several quality targets, only the first is drawn, with the slacks of its streams.
function draw_quality() {
  const all = Object.entries(model.status?.quality || {});
  $("quality-card").hidden = !all.length;
  if (!all.length) return;
  const [name, q] = all[0], m = model.moments;
  const of = (p) => p.quality?.[name] || {};
  if (!charts.quality) {
    charts.quality = chart("quality", [line("final", { spanGaps: true }), line("early", { width: 1, dash: [6, 4], spanGaps: true }), line("faint", { width: 1, dash: [2, 3], spanGaps: true })], { y_values: (u, splits) => splits.map((v) => `${+(100 * v).toFixed(1)} %`), range: (u, low) => [Math.max(0, Math.min(0.9, low - 0.02)), 1] });
    charts.slack = chart("slack", [line("watermark", { spanGaps: true })], spans());
  }
  const x = m.map((p) => p.wall), series = (key) => m.map((p) => of(p)[key] ?? null);
  charts.quality.setData([x, series("measured"), series("estimated"), series("target")]);
  charts.slack.setData([x, series("slack")]);
  const shown = (v) => (v == null ? "unknown" : percent(v));
  const text = `${name}: ${q.kind === "measured" ? "measured" : "by estimate"} ${shown(q.measured)} in the last interval, expected for the slack in force ${shown(q.estimated)}${q.target == null ? "" : `, target ${percent(q.target)}`}`;
  const met = q.met == null ? "" : `; ${percent(q.met)} of intervals met the target`;
  const whole_run = q.overall == null ? "" : `; ${percent(q.overall)} since the start`;
  $("quality-text").textContent = [`${text}${whole_run}${met}`, ...q.warnings].join("; ");
  label("quality", text);
  const slack = of(m[m.length - 1] || {}).slack;
  label("slack", slack == null ? "No slack yet" : `Slack in force: ${span(slack)}`);
  fill_table("quality", ["wall clock", "measured", "estimated", "target", "slack"], () => m.map((p) => [clock_time(p.wall), ...["measured", "estimated", "target"].map((key) => (of(p)[key] == null ? null : percent(of(p)[key]))), of(p).slack == null ? null : span(of(p).slack)]));
}

// -- accuracy --------------------------------------------------------------------------------------

const accuracy_colours = ["final", "early", "watermark", "late"];

function draw_accuracy() {
  if (!model.about.early || !model.status) return;
  const names = Object.keys(model.status.accuracy).slice(0, accuracy_colours.length);
  const p = model.status.prods;
  $("prods-text").textContent = `${whole.format(p.asked || 0)} prods asked, ${whole.format(p.answered || 0)} answered with ${whole.format(p.early || 0)} early rows, ${whole.format(p.empty || 0)} answered with none` +
    names.map((n) => `; ${n}: mean ${percent(model.status.accuracy[n].mean)}, worst ${percent(model.status.accuracy[n].worst)} of ${whole.format(model.status.accuracy[n].count)}`).join("");
  if (!names.length) return;
  const joined = names.join("\n");
  if (charts.accuracy && charts.accuracy_names !== joined) { charts.accuracy.destroy(); charts.accuracy = null; }
  if (!charts.accuracy) {
    charts.accuracy_names = joined;
    charts.accuracy = chart("accuracy", names.map((_, i) => line(accuracy_colours[i])), { range: (u, low) => [Math.min(0.9, Math.max(0, low - 0.02)), 1] });
    $("accuracy-legend").replaceChildren(...names.flatMap((n, i) => {
      const key = document.createElement("i");
      key.className = "line";
      key.style.borderColor = `var(--${accuracy_colours[i]})`;
      return [key, n];
    }));
  }
  charts.accuracy.setData([model.moments.map((m) => m.wall), ...names.map((n) => model.moments.map((m) => m.accuracy[n] ?? null))]);
  fill_table("accuracy", ["wall clock", ...names], () => model.moments.map((m) => [clock_time(m.wall), ...names.map((n) => (m.accuracy[n] == null ? null : percent(m.accuracy[n])))]));
  label("accuracy", `Recent accuracy: ${names.map((n) => `${n} ${percent(model.status.accuracy[n].recent)}`).join(", ")}`);
}

