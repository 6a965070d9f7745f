// What completeness costs: the slack for each share of rows, and the slack in force.
"use strict";

// Two digits of the missing share: 98.1 %, 99.84 %, 99.921 %.
const cost_share = (v) => `${+(100 * v).toFixed(v < 1 ? Math.max(0, Math.min(6, 1 - Math.floor(Math.log10(100 * (1 - v))))) : 0)} %`;

// The place of a completeness among the points, which stand at equal distances: 90 %, 99 %, 99.9 %.
function place_of(points, completeness) {
  const after = points.findIndex(([share]) => share >= completeness);
  if (after < 0) return points.length - 1;
  if (after === 0) return 0;
  const [a, b] = [points[after - 1][0], points[after][0]];
  return after - 1 + (b > a ? (completeness - a) / (b - a) : 0);
}

// The completeness under a slack: that of the longest wait on the frontier which is not longer.
function share_under(points, slack) {
  const known = points.filter(([, wait]) => wait <= slack);
  return known.length ? known[known.length - 1][0] : points[0][0];
}

// Of several quality targets, the first with a frontier is drawn.
function draw_frontier() {
  const found = Object.entries(model.status?.quality || {}).find(([, q]) => (q.frontier || []).length > 1);
  $("frontier-card").hidden = !found;
  if (!found) return;
  const [name, q] = found, points = q.frontier;
  // A logarithmic scale has no zero.
  const least = Math.min(...points.map(([, wait]) => wait).filter((wait) => wait > 0), q.slack > 0 ? q.slack : Infinity);
  const floor = Number.isFinite(least) ? least / 2 : 1e-3;
  const shown = (wait) => Math.max(wait, floor);
  if (!charts.frontier) {
    const labels = (u, splits) => splits.map((v) => (Number.isInteger(v) ? cost_share(model.frontier[v]?.[0] ?? 1) : ""));
    charts.frontier = chart("frontier", [line("watermark", { points: { show: true, size: 6, fill: () => colour("watermark") } }), dots("early", 11)],
      { x_timed: false, x_values: labels, y_log: true, y_size: 74, y_values: (u, splits) => splits.map((v) => (v == null ? null : span(v).replace(".0 ", " "))), range: (u, low, high) => [low / 1.3, high * 1.3] });
  }
  model.frontier = points;
  const present = q.slack == null ? null : place_of(points, share_under(points, q.slack));
  const x = [...new Set([...points.keys(), ...(present === null ? [] : [present])])].sort((a, b) => a - b);
  charts.frontier.setData([x, x.map((at) => (Number.isInteger(at) ? shown(points[at][1]) : undefined)), x.map((at) => (at === present ? shown(q.slack) : undefined))]);
  const cost = ([share, wait]) => `${cost_share(share)} costs ${span(wait)}`;
  const now = q.slack == null ? "" : `; the slack in force is ${span(q.slack)}`;
  const text = `${name}: ${points.slice(-4).map(cost).join(", ")}${now}`;
  $("frontier-text").textContent = text;
  label("frontier", `What completeness costs, ${text}`);
  const needs = Object.entries(model.status.needs || {});
  $("need-text").hidden = !needs.length;
  $("need-text").textContent = needs.map(([output, kept]) => `need${needs.length > 1 ? ` of ${output}` : ""}: ${kept}`).join(" | ");
  fill_table("frontier", ["complete", "slack"], () => points.map(([share, wait]) => [cost_share(share), span(wait)]));
}
