// The charts: each says in words what it shows, and as a table what it was drawn from.
"use strict";

const charts = {};
const TABLED = 12;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function chart(name, series, { x_timed = true, y_timed = false, y_size = 62, y_values, y_steps, hooks = {}, range } = {}) {
  const place = $(`chart-${name}`);
  const axis = (more) => ({ stroke: () => colour("faint"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { stroke: () => colour("line"), width: 1 }, ...more });
  const size = () => ({ width: Math.max(200, place.clientWidth), height: place.clientHeight });
  const made = new uPlot({
    ...size(),
    tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "Etc/UTC"),
    scales: { x: { time: x_timed }, y: { time: y_timed, ...(range ? { range } : {}) } },
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    axes: [axis(x_timed ? { values: clock(true), space: 90 } : {}), axis({ size: y_size, ...(y_timed ? { values: clock(false) } : y_values ? { values: y_values } : {}), ...(y_steps ? { incrs: y_steps } : {}) })],
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

// An axis of spans: in steps that are round in the unit they are told in, so that labels are short.
const SPANS = [
  ...[0.001, 0.01, 0.1, 1, 10].flatMap((unit) => [1, 2, 5].map((n) => n * unit)).filter((step) => step <= 20),
  ...[30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200],
  ...[1, 10, 100, 1000, 10000].flatMap((days) => [1, 2, 5].map((n) => n * days * 86400)),
];
const spans = () => ({ y_values: (u, splits) => splits.map((v) => span(v).replace(".0 ", " ")), ...(seen.about.timed ? { y_steps: SPANS } : {}), range: (u, low, high) => [0, Math.max(high * 1.1, 1e-3)] });

function line(name, more = {}) {
  return { stroke: () => colour(name), width: 2, points: { show: false }, ...more };
}

// The same as a table, made when somebody opens it: the newest first.
function tabled(name, columns, rows) {
  const place = $(`table-${name}`);
  if (!place.dataset.ready) {
    place.dataset.ready = "yes";
    place.addEventListener("toggle", soon);
  }
  if (!place.open) return;
  const table = document.createElement("table"), head = document.createElement("thead"), body = document.createElement("tbody");
  head.append(heads(columns, columns.map((_, i) => (i ? "number" : ""))));
  fill(body, rows().slice(-TABLED).reverse().map((cells) => row(cells.map((text, i) => [i ? "td" : "th", text ?? "–", i ? "number" : ""]))));
  table.append(head, body);
  place.querySelector("div").replaceChildren(table);
}

function label(name, text) {
  const place = $(`chart-${name}`);
  if (place.getAttribute("aria-label") !== text) place.setAttribute("aria-label", text);
}

const dots = (name, size) => ({ stroke: () => colour(name), width: 0, paths: () => null, points: { show: true, size, width: 2, stroke: () => colour(name), fill: () => colour("card") } });
const unseen_line = { stroke: "transparent", points: { show: false } };

// -- results ---------------------------------------------------------------------------------------

function results_of(value, group) {
  const windows = seen.groups.get(group) || new Map();
  const ends = [...windows.keys()].sort((a, b) => a - b);
  // Where a window is missing (nothing came, or it was shed) the line has a gap.
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
    // A window that was shed and filled in is a gap all the same.
    final.push(f ? f.values[value] : g ? null : undefined);
    filled.push(g ? g.values[value] : undefined);
    early.push(e ? e.values[value] : undefined);
    const [lo, hi] = e?.intervals[value] || [null, null];
    low.push(lo);
    high.push(hi);
  });
  return [x, final, early, low, high, filled];
}

// One interval that is far too wide must not press all results into a line.
function results_range(u) {
  const known = (list) => (list || []).filter((v) => v != null);
  const shown = [u.data[1], u.data[2], u.data[5]].flatMap(known);
  if (!shown.length) return [0, 1];
  const least = Math.min(...shown), most = Math.max(...shown), room = most - least || Math.abs(most) || 1;
  const low = Math.max(least - room / 2, Math.min(least, ...known(u.data[3])));
  const high = Math.min(most + room / 2, Math.max(most, ...known(u.data[4])));
  return uPlot.rangeNum(low, high, 0.05, true);
}

function draw_shed(u) {
  if (!seen.shed.length) return;
  u.ctx.save();
  u.ctx.fillStyle = colour("shed");
  u.ctx.globalAlpha = 0.22;
  const { left, top, width, height } = u.bbox;
  for (const [start, end] of shed_stretches()) {
    const a = Math.max(left, u.valToPos(start, "x", true)), b = Math.min(left + width, u.valToPos(end, "x", true));
    if (b > a) u.ctx.fillRect(a, top, Math.max(b - a, devicePixelRatio), height);
  }
  u.ctx.restore();
}

// A result is dated by the end of its window, so a shed window is drawn as the slide before that.
function shed_stretches() {
  const found = [];
  for (const [end, slide] of seen.shed) {
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
  const names = [...seen.groups.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  options($("group"), names);
  $("by").hidden = !seen.about.keys.length;
  const value = $("value").value, group = $("group").value;
  $("shed-legend").hidden = !seen.about.sheds;
  $("early-legend").hidden = !seen.about.prodded;
  if (!value || !names.length) return;
  if (!charts.results) {
    const final = line("final", { spanGaps: false, points: { show: true, size: 4, fill: () => colour("final") } });
    // A window that has no final yet is not a gap.
    charts.results = chart("results", [final, dots("early", 9), unseen_line, unseen_line, dots("shed", 5)], { x_timed: seen.about.timed, range: results_range, hooks: { drawClear: [draw_shed], draw: [draw_intervals] } });
  }
  const data = results_of(value, group);
  charts.results.series[2].points.size = data[0].length > 60 ? 6 : 9;
  charts.results.setData(data);
  const finals = data[1].filter((v) => v != null), early = data[2].filter((v) => v != null);
  const last = finals.length ? `, the newest ${short(finals[finals.length - 1])}` : "";
  const of = group ? `${value} for ${group}` : value;
  const more = seen.about.prodded ? `, ${early.length} windows with early results` : "";
  const gaps = seen.about.sheds ? `, ${seen.shed.length} windows shed` : "";
  label("results", `${of}: ${finals.length} finals${last}${more}${gaps}`);
  tabled("results", ["end of window", "final", "early", "from", "to"], () => results_table(data));
}

function results_table([x, final, early, low, high]) {
  const shed = new Set(seen.shed.map(([end]) => end));
  const figure = (v) => (v == null ? "–" : short(v));
  const known = x.map((end, i) => [end, shed.has(end) ? "shed" : figure(final[i]), figure(early[i]), figure(low[i]), figure(high[i])]).filter(([, f, e]) => f !== "–" || e !== "–");
  const met = new Set(known.map(([end]) => end));
  const missing = [...shed].filter((end) => !met.has(end) && (!known.length || end >= known[0][0])).map((end) => [end, "shed", "–", "–", "–"]);
  return [...known, ...missing].sort((a, b) => a[0] - b[0]).map(([end, ...rest]) => [moment(end), ...rest]);
}

// -- progress --------------------------------------------------------------------------------------

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
  label("progress", `Low-water mark and newest event by the wall clock: ${parts.join("; ") || "no mark yet"}`);
  tabled("progress", ["wall clock", "newest event", "low-water mark", "apart"], () => m.map((p) => [clock_time(p.wall), p.newest === null ? null : moment(p.newest), p.lwm === null ? null : moment(p.lwm), p.newest === null || p.lwm === null ? null : span(p.newest - p.lwm)]));
}

function draw_late() {
  const m = seen.moments;
  if (!m.length) return;
  const begun = m[0].wall;
  const marks = seen.lateMarks.filter(([wall]) => wall >= begun);
  const all = [...m.map((p) => [p.wall, p.newest === null || p.lwm === null ? undefined : p.newest - p.lwm, undefined]), ...marks.map(([wall, by]) => [wall, undefined, by])];
  all.sort((a, b) => a[0] - b[0]);
  if (!charts.late) {
    const late = dots("late", 6);
    late.points.fill = () => colour("late");
    charts.late = chart("late", [line("mark", { spanGaps: true }), late], spans());
  }
  charts.late.setData([all.map((p) => p[0]), all.map((p) => p[1]), all.map((p) => p[2])]);
  const c = seen.status?.counts || {};
  const told = `${whole.format(c.late || 0)} rows missed all their windows, ${whole.format(c.partly_late || 0)} missed some`;
  $("late-said").textContent = told;
  label("late", `How long is waited for late rows, and how late those were that came too late: ${told}`);
  tabled("late", ["wall clock", "waited for", "a row late by"], () => all.map(([wall, wait, by]) => [clock_time(wall), wait === undefined ? null : span(wait), by === undefined ? null : span(by)]));
}

// -- quality ---------------------------------------------------------------------------------------

// Of several targets, the one that is named first; its slacks are those of its streams.
function draw_quality() {
  const all = Object.entries(seen.status?.quality || {});
  $("quality-card").hidden = !all.length;
  if (!all.length) return;
  const [name, q] = all[0], m = seen.moments;
  const of = (p) => p.quality?.[name] || {};
  if (!charts.quality) {
    charts.quality = chart("quality", [line("final", { spanGaps: true }), line("early", { width: 1, dash: [6, 4], spanGaps: true }), line("faint", { width: 1, dash: [2, 3], spanGaps: true })], { y_values: (u, splits) => splits.map((v) => `${+(100 * v).toFixed(1)} %`), range: (u, low) => [Math.max(0, Math.min(0.9, low - 0.02)), 1] });
    charts.slack = chart("slack", [line("mark", { spanGaps: true })], spans());
  }
  const x = m.map((p) => p.wall), figure = (key) => m.map((p) => of(p)[key] ?? null);
  charts.quality.setData([x, figure("measured"), figure("estimated"), figure("target")]);
  charts.slack.setData([x, figure("slack")]);
  const say = (v) => (v == null ? "not known yet" : percent(v));
  const told = `${name}: ${q.kind === "measured" ? "measured" : "in the last interval, by estimate,"} ${say(q.measured)}, estimated for the slack in force ${say(q.estimated)}${q.target == null ? "" : `, target ${percent(q.target)}`}`;
  const met = q.met == null ? "" : `; ${percent(q.met)} of intervals met the target`;
  const whole_run = q.overall == null ? "" : `; ${percent(q.overall)} since the beginning`;
  $("quality-said").textContent = [`${told}${whole_run}${met}`, ...q.warnings].join("; ");
  label("quality", told);
  const slack = of(m[m.length - 1] || {}).slack;
  label("slack", slack == null ? "No slack yet" : `Slack in force: ${span(slack)}`);
  tabled("quality", ["wall clock", "measured", "estimated", "target", "slack"], () => m.map((p) => [clock_time(p.wall), ...["measured", "estimated", "target"].map((key) => (of(p)[key] == null ? null : percent(of(p)[key]))), of(p).slack == null ? null : span(of(p).slack)]));
}

// -- accuracy --------------------------------------------------------------------------------------

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
  tabled("accuracy", ["wall clock", ...names], () => seen.moments.map((m) => [clock_time(m.wall), ...names.map((n) => (m.accuracy[n] == null ? null : percent(m.accuracy[n])))]));
  label("accuracy", `Accuracy of late: ${names.map((n) => `${n} ${percent(seen.status.accuracy[n].recent)}`).join(", ")}`);
}

