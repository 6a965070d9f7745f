// The page of a running query: it hears of every epoch and draws what is new, at most once a frame.
"use strict";

const MOMENTS = 1200, ROWS = 30, WINDOWS = 240, LATE_MARKS = 300;
const NEWS_SECONDS = 15;
const token = new URLSearchParams(location.search).get("token") || "";

const nothing = () => ({ moments: [], rows: [], late: [], lateMarks: [], shed: [], groups: new Map(), epoch: -1 });
const seen = { about: null, status: null, settings: {}, otherGroups: 0, ...nothing() };
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
  append(seen.shed, event.shed, WINDOWS);
  settle(event.settings);
  event.points.forEach(put);
  soon();
}

function begin(event) {
  Object.assign(seen, { about: event.about }, nothing());
  document.title = $("title").textContent = event.about.title;
  $("plan").innerHTML = event.about.picture;  // made by the server from the plan, its texts escaped
  options($("value"), event.about.values);
  $("controls").hidden = !event.about.controls;
  $("refresh").hidden = !event.about.prodded;
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
  draw_quality();
  draw_accuracy();
  draw_counts();
  draw_tables();
  say_news();
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

const ACCOUNTS = ["admitted", "late", "outside", "malformed", "shed", "sidelined"];

function draw_counts() {
  if (!seen.status) return;
  const c = seen.status.counts;
  const lines = [...ACCOUNTS.map((name, i) => [i ? `+ ${name}` : name, c[name], ""]), ["= in", c.in, "sum"], ["final results", seen.status.results, ""]];
  fill($("counts"), lines.map(([name, n, kind]) => row([["th", name], ["td", whole.format(n ?? 0), "number"]], kind)));
  const sum = ACCOUNTS.reduce((total, name) => total + (c[name] || 0), 0);
  $("balance").textContent = sum === c.in && seen.status.balanced ? "✓ the counts add up" : `✗ ${whole.format(sum)} are accounted for`;
  $("shed-said").textContent = shed_words(seen.status.shed);
}

function shed_words(shed) {
  if (!seen.about.sheds || !shed) return "";
  const parts = [`${whole.format(shed.windows)} windows were shed; ${percent(shed.p)} of all are left out now`];
  if (shed.load != null) parts.push(`load ${short(shed.load)} of what the machine can do`);
  if (shed.closed.length) parts.push(`shut down: ${shed.closed.join(", ")}`);
  if (!shed.in_reach) parts.push("the bound cannot be met");
  return parts.join("; ");
}

function draw_tables() {
  const newest = seen.rows.slice().reverse();
  if (newest.length) {
    const columns = Object.keys(newest[0]);
    const number = (text) => (/^[-\d.,e+]+( \(.*\))?$/.test(text) ? "number" : "");
    const kinds = columns.map((c) => number(newest[0][c]));
    fill($("rows-head"), [heads(columns, kinds)]);
    fill($("rows"), newest.map((r) => row(columns.map((c, i) => ["td", r[c] ?? "", kinds[i]]), r.kind === "final" ? "" : r.kind || "")));
  }
  const late = seen.late.slice().reverse();
  fill($("late-rows"), late.length ? late.map((r) => row([["td", r["late by"] === null ? "–" : span(r["late by"]), "number"], ["td", r.missed + (r.partly ? ", entered others" : "")], ["td", r.row]])) : [row([["td", "none"], ["td", ""], ["td", ""]])]);
}

// For screen readers: the newest result, but not every one of them.
let told_at = -Infinity, told = null;

function say_news() {
  const newest = seen.rows[seen.rows.length - 1];
  if (!newest || newest === told || performance.now() - told_at < 1000 * NEWS_SECONDS) return;
  told = newest;
  told_at = performance.now();
  $("news").textContent = `newest result: ${Object.entries(newest).map(([name, text]) => `${name} ${text}`).join(", ")}`;
}

// -- asking ----------------------------------------------------------------------------------------

// Ask for something and say what came of it; return whether it was taken. What was asked for may
// be done before the answer is here: then that has been said.
async function ask(path, body, is_done = () => false) {
  try {
    const answer = await fetch(path, { method: "POST", headers: { "X-Lowwater-Token": token, "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const text = (await answer.text()).trim();
    if (!is_done()) $("said").textContent = text;
    return answer.ok;
  } catch {
    $("said").textContent = "The run cannot be reached.";
    return false;
  }
}

const share = (x) => `${+(100 * x).toFixed(1)} %`;
const SLIDERS = {
  quality: { name: "target quality", least: 0.5, most: 1, step: 0.005, say: share },
  aggressiveness: { name: "aggressiveness", least: 0, most: 1, step: 0.05, say: share },
  accuracy: { name: "accuracy", least: 0.5, most: 0.995, step: 0.005, say: share },
  max_gap: { name: "max gap", least: 1, most: 20, step: 1, say: (x) => (x === 1 ? "1 window" : `${x} windows`) },
  max_gap_seconds: { name: "max gap", least: 1, most: 60, step: 1, say: (x) => span(x), as: (x) => ({ max_gap: `${x} seconds` }) },
};

// The values in force come with every epoch, so that all pages show what the log says.
function settle(settings) {
  for (const [name, value] of Object.entries(settings)) {
    const before = seen.settings[name];
    const slider = $(`slider-${name}`) || made_slider(name, value);
    if (before === value) continue;
    slider.min = Math.min(slider.min, value);
    slider.max = Math.max(slider.max, value);
    slider.value = value;
    say_slider(name, value);
    if (before !== undefined && slider.dataset.asked) {
      delete slider.dataset.asked;
      $("said").textContent = `${SLIDERS[name].name} ${SLIDERS[name].say(value)}: decided after epoch ${seen.status?.epoch}, and in the control log.`;
    }
  }
  seen.settings = settings;
}

function made_slider(name, value) {
  const how = SLIDERS[name], place = document.createElement("label");
  place.className = "slider";
  const slider = document.createElement("input");
  const most = name.startsWith("max_gap") ? Math.max(how.most, 4 * value) : how.most;
  Object.assign(slider, { id: `slider-${name}`, type: "range", min: how.least, max: most, step: how.step });
  const output = document.createElement("output");
  output.id = `${slider.id}-said`;
  output.htmlFor = slider.id;
  place.append(how.name, slider, output);
  $("sliders").append(place);
  slider.addEventListener("input", () => say_slider(name, Number(slider.value)));
  slider.addEventListener("change", async () => {
    slider.dataset.asked = "yes";
    const chosen = Number(slider.value);
    const taken = await ask("retune", how.as ? how.as(chosen) : { [name]: chosen }, () => !slider.dataset.asked);
    if (taken) return;
    delete slider.dataset.asked;
    slider.value = seen.settings[name];
    say_slider(name, seen.settings[name]);
  });
  return slider;
}

function say_slider(name, value) {
  const text = SLIDERS[name].say(value);
  $(`slider-${name}-said`).textContent = text;
  $(`slider-${name}`).setAttribute("aria-valuetext", text);
}

$("refresh").addEventListener("click", () => ask("prod", {}));
$("value").addEventListener("change", soon);
$("group").addEventListener("change", soon);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const one of Object.values(charts)) one?.redraw?.();
});
listen();
