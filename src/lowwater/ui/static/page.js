// The page of a running query. It receives an event per epoch, and draws at most once per frame.
"use strict";

const MOMENTS = 1200, ROWS = 30, WINDOWS = 240, LATE_POINTS = 300;
const NEWS_SECONDS = 15;
const token = new URLSearchParams(location.search).get("token") || "";

const nothing = () => ({ moments: [], rows: [], late: [], latePoints: [], dropped: [], groups: new Map(), epoch: -1 });
const model = { about: null, status: null, settings: {}, otherGroups: 0, ...nothing() };
let drawing = false;

// -- events ----------------------------------------------------------------------------------------

function listen() {
  const source = new EventSource(`events?token=${encodeURIComponent(token)}`);
  source.onmessage = (message) => { receive(JSON.parse(message.data)); };
  source.onerror = () => { if (!model.status?.ended) show_state("lost", "connection lost"); };
}

function receive(event) {
  if (event.whole) begin(event);
  else if (event.number <= model.number) return;
  model.number = event.number;
  if (event.status) model.status = event.status;
  model.otherGroups = event.otherGroups;
  append(model.moments, event.moments, MOMENTS);
  append(model.rows, event.rows, ROWS);
  append(model.late, event.late, ROWS);
  append(model.latePoints, event.latePoints, LATE_POINTS);
  append(model.dropped, event.dropped, WINDOWS);
  update_settings(event.settings);
  event.points.forEach(add_point);
  schedule_draw();
}

function begin(event) {
  Object.assign(model, { about: event.about }, nothing());
  document.title = $("title").textContent = event.about.title;
  $("plan").innerHTML = event.about.picture;  // SVG from the server, its texts escaped
  options($("value"), event.about.values);
  $("controls").hidden = !event.about.controls;
  $("refresh").hidden = !event.about.early;
  $("accuracy-card").hidden = !event.about.early;
}

function append(list, more, most) {
  list.push(...more);
  if (list.length > most) list.splice(0, list.length - most);
}

function add_point(point) {
  if (!model.groups.has(point.group)) model.groups.set(point.group, new Map());
  const windows = model.groups.get(point.group);
  const at = windows.get(point.end) || {};
  at[point.kind] = point;
  windows.set(point.end, at);
  if (windows.size > WINDOWS) {
    const ends = [...windows.keys()].sort((a, b) => a - b);
    ends.slice(0, ends.length - WINDOWS).forEach((end) => windows.delete(end));
  }
}

// -- drawing ---------------------------------------------------------------------------------------

function show_state(name, text) {
  if ($("state").dataset.state !== name) { $("state").dataset.state = name; $("state").textContent = text; }
}

function options(select, names) {
  const before = select.value;
  if ([...select.options].map((o) => o.value).join("\n") === names.join("\n")) return;
  select.replaceChildren(...names.map((name) => new Option(name === "" ? "(all)" : name, name)));
  if (names.includes(before)) select.value = before;
}

function schedule_draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; draw(); });
}

function draw() {
  if (!model.about) return;
  draw_metrics();
  draw_results();
  draw_progress();
  draw_late();
  draw_quality();
  draw_frontier();
  draw_accuracy();
  draw_counts();
  draw_tables();
  announce();
}

function draw_metrics() {
  const s = model.status;
  if (!s) { show_state("waiting", "waiting for the first epoch"); return; }
  const state = s.failed ? "failed" : s.ended ? "ended" : "running";
  show_state(state, state);
  $("epoch").textContent = whole.format(s.epoch);
  if (s.rate) $("rate").textContent = whole.format(s.rate);  // an epoch without rows has no rate
  $("watermark").textContent = s.ended ? "end of stream" : at(s.watermark);
  $("newest").textContent = at(s.newest);
  $("kept").textContent = bytes(s.bytes);
  $("failure").hidden = !s.failure;
  $("failure").textContent = s.failure ? `Restarts: ${whole.format(s.restarts)}. Last failure: ${s.failure}.` : "";
  $("refresh").disabled = s.ended || !model.about.early;
}

const ACCOUNTS = ["admitted", "late", "outside", "malformed", "shed", "sidelined"];

function draw_counts() {
  if (!model.status) return;
  const c = model.status.counts;
  const lines = [...ACCOUNTS.map((name, i) => [i ? `+ ${name}` : name, c[name], ""]), ["= in", c.in, "sum"], ["final results", model.status.results, ""]];
  fill($("counts"), lines.map(([name, n, kind]) => row([["th", name], ["td", whole.format(n ?? 0), "number"]], kind)));
  const sum = ACCOUNTS.reduce((total, name) => total + (c[name] || 0), 0);
  $("balance").textContent = sum === c.in && model.status.balanced ? "✓ the counts add up" : `✗ only ${whole.format(sum)} rows are accounted for`;
  const lost = model.status.overflows;
  $("overflow-text").textContent = lost ? `${whole.format(lost)} sums or means are NULL: they do not fit their type` : "";
  $("dropped-text").textContent = dropped_text(model.status.dropped);
}

const LIMITS = { max_gap: "max_gap is too small", begun: "windows had begun", epochs: "epochs take too long" };

function dropped_text(dropped) {
  if (!model.about.sheds || !dropped) return "";
  const parts = [`${whole.format(dropped.windows)} windows were dropped; ${percent(dropped.share)} of all are dropped now`];
  if (dropped.load != null) parts.push(`load ${percent(dropped.load)} of what the machine can do`);
  if (dropped.closed.length) parts.push(`shut down: ${dropped.closed.join(", ")}`);
  if (dropped.limited_by) parts.push(`the bound cannot be met: ${LIMITS[dropped.limited_by]}`);
  return parts.join("; ");
}

function draw_tables() {
  const newest = model.rows.slice().reverse();
  if (newest.length) {
    const columns = Object.keys(newest[0]);
    const number = (text) => (/^[-\d.,e+]+( \(.*\))?$/.test(text) ? "number" : "");
    const kinds = columns.map((c) => number(newest[0][c]));
    fill($("rows-head"), [heads(columns, kinds)]);
    fill($("rows"), newest.map((r) => row(columns.map((c, i) => ["td", r[c] ?? "", kinds[i]]), r.kind === "final" ? "" : r.kind || "")));
  }
  const late = model.late.slice().reverse();
  fill($("late-rows"), late.length ? late.map((r) => row([["td", r["late by"] === null ? "–" : span(r["late by"]), "number"], ["td", r.missed + (r.partly ? ", entered others" : "")], ["td", r.row]])) : [row([["td", "none"], ["td", ""], ["td", ""]])]);
}

// For screen readers: the newest result, at most one in NEWS_SECONDS.
let announced_at = -Infinity, announced = null;

function announce() {
  const newest = model.rows[model.rows.length - 1];
  if (!newest || newest === announced || performance.now() - announced_at < 1000 * NEWS_SECONDS) return;
  announced = newest;
  announced_at = performance.now();
  $("news").textContent = `newest result: ${Object.entries(newest).map(([name, text]) => `${name} ${text}`).join(", ")}`;
}

// -- requests ---------------------------------------------------------------------------------------

// Send a request and show its answer; return whether the run accepted it. If an epoch
// acts on the request before the answer arrives, the message of that epoch stays.
async function request(path, body, is_done = () => false) {
  try {
    const answer = await fetch(path, { method: "POST", headers: { "X-Lowwater-Token": token, "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const text = (await answer.text()).trim();
    if (!is_done()) $("message").textContent = text;
    return answer.ok;
  } catch {
    $("message").textContent = "The run does not answer.";
    return false;
  }
}

const share = (x) => `${+(100 * x).toFixed(1)} %`;
const SLIDERS = {
  quality: { name: "target quality", least: 0.5, most: 1, step: 0.005, format: share },
  aggressiveness: { name: "aggressiveness", least: 0, most: 1, step: 0.05, format: share },
  accuracy: { name: "accuracy", least: 0.5, most: 0.995, step: 0.005, format: share },
  max_gap: { name: "max gap", least: 1, most: 20, step: 1, format: (x) => (x === 1 ? "1 window" : `${x} windows`) },
  max_gap_seconds: { name: "max gap", least: 1, most: 60, step: 1, format: (x) => span(x), as: (x) => ({ max_gap: `${x} seconds` }) },
  need_fresh_seconds: { name: "fresh", least: 1, most: 60, step: 1, format: (x) => span(x), as: (x) => ({ need: { fresh: `${x} seconds` } }) },
  need_right: { name: "right", least: 0.5, most: 1, step: 0.005, format: share, as: (x) => ({ need: { right: x } }) },
  latency_seconds: { name: "latency", least: 1, most: 60, step: 1, format: (x) => span(x), as: (x) => ({ latency: `${x} seconds` }) },
};

// Every event contains the current settings, so all pages show the settings of the control log.
function update_settings(settings) {
  for (const [name, value] of Object.entries(settings)) {
    const before = model.settings[name];
    const slider = $(`slider-${name}`) || make_slider(name, value);
    if (before === value) continue;
    slider.min = Math.min(slider.min, value);
    slider.max = Math.max(slider.max, value);
    slider.value = value;
    label_slider(name, value);
    if (before !== undefined && slider.dataset.requested) {
      delete slider.dataset.requested;
      $("message").textContent = `${SLIDERS[name].name} ${SLIDERS[name].format(value)}: decided after epoch ${model.status?.epoch}, and written to the control log.`;
    }
  }
  model.settings = settings;
}

function make_slider(name, value) {
  const how = SLIDERS[name], place = document.createElement("label");
  place.className = "slider";
  const slider = document.createElement("input");
  const most = /^(max_gap|latency|need_fresh)/.test(name) ? Math.max(how.most, 4 * value) : how.most;
  Object.assign(slider, { id: `slider-${name}`, type: "range", min: how.least, max: most, step: how.step });
  const output = document.createElement("output");
  output.id = `${slider.id}-text`;
  output.htmlFor = slider.id;
  place.append(how.name, slider, output);
  $("sliders").append(place);
  slider.addEventListener("input", () => label_slider(name, Number(slider.value)));
  slider.addEventListener("change", async () => {
    slider.dataset.requested = "yes";
    const chosen = Number(slider.value);
    const accepted = await request("retune", how.as ? how.as(chosen) : { [name]: chosen }, () => !slider.dataset.requested);
    if (accepted) return;
    delete slider.dataset.requested;
    slider.value = model.settings[name];
    label_slider(name, model.settings[name]);
  });
  return slider;
}

function label_slider(name, value) {
  const text = SLIDERS[name].format(value);
  $(`slider-${name}-text`).textContent = text;
  $(`slider-${name}`).setAttribute("aria-valuetext", text);
}

$("refresh").addEventListener("click", () => request("prod", {}));
$("value").addEventListener("change", schedule_draw);
$("group").addEventListener("change", schedule_draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const one of Object.values(charts)) one?.redraw?.();
});
listen();
