// Track (c): what was decided, one lane for each class, and the annotations; and the overview of the recording.

import { $, colour, el, fitted } from "./dom.js";
import { duration, priorOf, seconds, state } from "./state.js";
import { classColour, className, onColour } from "./theme.js";
import { inView, span, x } from "./view.js";

const WIDEST = 22, NARROWEST = 14, SHARE = 0.28, DENSITY_FROM = 0.12;
let laneHeight = WIDEST;  // pixels; less where there are many classes and little room
const SIGNS = { confirmed: "✓", relabelled: "→", rejected: "✗", unsure: "?" };

export function laneIds() {
  const known = state.project.classes.map((c) => c.id);
  return state.project.run ? [...known, null] : [];
}

export function layOutLanes() {
  const names = [...laneIds().map((id) => el("span", { title: className(id) }, className(id))), el("span", {}, "my labels")];
  $("lane-names").replaceChildren(...names);
  laneHeight = Math.min(WIDEST, Math.max(NARROWEST, Math.floor((SHARE * window.innerHeight) / names.length)));
  document.documentElement.style.setProperty("--lane", `${laneHeight}px`);
  document.documentElement.style.setProperty("--lanes", `${laneHeight * names.length + 2}px`);
}

export function drawLanes() {
  const { context, width: w, height: h } = fitted($("lanes"));
  const ids = laneIds();
  context.fillStyle = colour("--line");
  ids.forEach((_, k) => context.fillRect(0, (k + 1) * laneHeight, w, 1));
  const lane = new Map(ids.map((id, k) => [id, k]));
  const live = state.dragging !== null;
  if (live) drawCandidates(context, lane, w);
  if (state.view.spp > DENSITY_FROM) density(context, lane, w, live);
  else for (const d of inView(state.detections)) if (!live || d.class_id == null) box(context, d, lane.get(d.class_id));
  drawOwn(context, ids.length, w);
  context.fillStyle = colour("--bad");
  context.fillRect(x(state.playhead) - 0.75, 0, 1.5, h);
}

function box(context, d, lane) {
  if (lane === undefined) return;
  const a = x(seconds(d.t0)), b = x(seconds(d.t1));
  const wide = Math.max(2, b - a), top = lane * laneHeight + 3, ink = classColour(d.class_id), sign = SIGNS[d.status];
  context.fillStyle = ink;
  context.strokeStyle = ink;
  context.lineWidth = d.verdict === "ambiguous" ? 2 : 1;
  if (d.status === "rejected" || d.status === "relabelled") context.strokeRect(a + 0.5, top + 0.5, wide - 1, laneHeight - 7);
  else {
    context.globalAlpha = d.status === "confirmed" ? 1 : 0.5;
    context.fillRect(a, top, wide, laneHeight - 6);
    context.globalAlpha = 1;
    if (d.verdict === "ambiguous") context.strokeRect(a + 1, top + 1, wide - 2, laneHeight - 8);
  }
  if (d.id === state.current) { context.strokeStyle = colour("--text"); context.lineWidth = 2.5; context.strokeRect(a - 1.5, top - 1.5, wide + 3, laneHeight - 3); }
  if (sign && wide > 11) {
    context.fillStyle = d.status === "confirmed" ? onColour(ink) : colour("--text");
    context.font = "700 12px system-ui, sans-serif";
    context.textAlign = "center"; context.textBaseline = "middle";
    context.fillText(sign, a + wide / 2, top + (laneHeight - 6) / 2 + 1);
  }
}

/** While the threshold is dragged: what it would find. */
function drawCandidates(context, lane, w) {
  if (state.view.spp > DENSITY_FROM) return;
  for (const [id, t0, t1, score] of state.candidates) {
    if (score / priorOf(id) < state.dragging) continue;
    const a = x(seconds(t0)), b = x(seconds(t1));
    if (b < 0 || a > w) continue;
    context.fillStyle = classColour(id);
    context.globalAlpha = 0.6;
    context.fillRect(a, lane.get(id) * laneHeight + 3, Math.max(2, b - a), laneHeight - 6);
  }
  context.globalAlpha = 1;
}

function density(context, lane, w, live) {
  const every = 4, counts = new Map();
  const count = (id, t0, t1) => {
    const k = Math.floor(x(seconds((t0 + t1) / 2)) / every);
    if (k < 0 || k * every > w) return;
    const row = counts.get(id) ?? counts.set(id, new Map()).get(id);
    row.set(k, (row.get(k) ?? 0) + 1);
  };
  if (live) for (const [id, t0, t1, score] of state.candidates) { if (score / priorOf(id) >= state.dragging) count(id, t0, t1); }
  else for (const d of state.detections) count(d.class_id, d.t0, d.t1);
  const most = Math.max(1, ...[...counts.values()].flatMap((row) => [...row.values()]));
  for (const [id, row] of counts) {
    if (!lane.has(id)) continue;
    context.fillStyle = classColour(id);
    for (const [k, n] of row) {
      const high = (laneHeight - 5) * (0.25 + (0.75 * n) / most);
      context.fillRect(k * every, (lane.get(id) + 1) * laneHeight - 1 - high, every - 1, high);
    }
  }
}

function drawOwn(context, lane, w) {
  for (const a of state.annotations.values()) {
    const from = x(seconds(a.t0)), to = x(seconds(a.t1));
    if (to < 0 || from > w || a.role === "unsure") continue;
    const ink = classColour(a.class_id);
    if (a.role === "negative") {
      context.strokeStyle = ink; context.setLineDash([3, 2]); context.lineWidth = 1;
      context.strokeRect(from, lane * laneHeight + 5, Math.max(3, to - from), laneHeight - 9); context.setLineDash([]);
      continue;
    }
    context.fillStyle = ink;
    context.fillRect(from, lane * laneHeight + 5, Math.max(3, to - from), laneHeight - 9);
    if (a.id === state.annotation) { context.strokeStyle = colour("--text"); context.lineWidth = 2; context.strokeRect(from - 1, lane * laneHeight + 4, Math.max(3, to - from) + 2, laneHeight - 7); }
  }
}

const background = document.createElement("canvas");
let old = true;
/** What was found has changed: the bars of the overview are drawn anew. */
export function renewOverview() { old = true; }

export function drawOverview() {
  const canvas = $("overview"), { context, width: w, height: h } = fitted(canvas), whole = duration();
  if (old || background.width !== canvas.width || background.height !== canvas.height) {
    Object.assign(background, { width: canvas.width, height: canvas.height });
    const behind = background.getContext("2d");
    behind.scale(canvas.width / w, canvas.height / h);
    drawBars(behind, w, h);
    old = false;
  }
  context.drawImage(background, 0, 0, w, h);
  const left = (state.view.t0 / whole) * w, wide = Math.max(4, (span() / whole) * w);
  context.fillStyle = colour("--shade");
  context.fillRect(left, 0, wide, h);
  context.strokeStyle = colour("--accent");
  context.lineWidth = 2;
  context.strokeRect(left + 1, 1, Math.max(2, wide - 2), h - 2);
}

/** How much was found when, and where the annotations are. */
function drawBars(context, w, h) {
  const whole = duration(), every = 5, columns = Math.ceil(w / every);
  const rows = laneIds().map((id) => [id, new Uint16Array(columns)]);
  const of = new Map(rows);
  for (const d of state.detections) {
    const k = Math.min(columns - 1, Math.floor(((seconds(d.t0) / whole) * w) / every));
    const row = of.get(d.class_id);
    if (row) row[k] += 1;
  }
  const totals = Array.from({ length: columns }, (_, k) => rows.reduce((sum, [, row]) => sum + row[k], 0));
  const most = Math.max(4, ...totals);
  for (let k = 0; k < columns; k++) {
    let base = h - 2;
    for (const [id, row] of rows) {
      const high = (row[k] / most) * (h - 8);
      context.fillStyle = classColour(id);
      context.fillRect(k * every, base - high, every - 1, high);
      base -= high;
    }
  }
  for (const a of state.annotations.values()) {
    if (a.role === "negative" || a.role === "unsure") continue;
    context.fillStyle = classColour(a.class_id);
    context.fillRect((seconds(a.t0) / whole) * w, 0, 2, 6);
  }
}
