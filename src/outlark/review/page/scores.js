// Track (b): score curves relative to the thresholds of training, and one threshold that can be dragged.

import { bytes } from "./api.js";
import { $, colour, fitted } from "./dom.js";
import { changed, priorOf, seconds, state } from "./state.js";
import { axisTitle } from "./spectrogram.js";
import { classColour, classDash } from "./theme.js";
import { held } from "./tiles.js";
import { inView, time, width, x } from "./view.js";

const MOST_TILES = 80, STRIPS_FROM = 0.1;
const tiles = new Map();
let flying = 0;
/** The top of the axis: above all scores of this recording. */
export function highest() {
  if (cached.of !== state.candidates) {
    const most = state.candidates.reduce((top, [id, , , score]) => Math.max(top, score / priorOf(id)), 2);
    cached = { of: state.candidates, value: Math.max(4, Math.ceil(most * 1.05)) };
  }
  return cached.value;
}
let cached = { of: null, value: 4 };
export const clearScores = () => tiles.clear();

/** A tile of bins: float32 (bins, classes, 2). */
function tile(level, number) {
  const { id } = state.recording, run = state.scoreLevels.run;
  const key = `${id}/${run}/${level}/${number}`;
  if (!tiles.has(key)) {
    if (flying >= 8) return null;
    if (held()) { setTimeout(() => changed("view"), 80); return null; }
    tiles.set(key, null);
    flying += 1;
    bytes(`/api/recordings/${id}/scores/${run}/${level}/${number}`)
      .then(async (r) => tiles.set(key, new Float32Array(await r.arrayBuffer())))
      .catch(() => setTimeout(() => tiles.delete(key), 2000))
      .finally(() => { flying -= 1; changed("view"); });
    while (tiles.size > MOST_TILES) tiles.delete(tiles.keys().next().value);
  }
  return tiles.get(key);
}

/**
 * The bins in view: for each class the largest score of each bin, relative to training (NaN: not there yet); and where
 * on the screen bin i is, at `left` + i · `step`.
 */
function bins() {
  const { levels, factor, bins: perTile, dt, first, classes } = state.scoreLevels;
  let level = 0;
  while (level + 1 < levels && dt * factor ** (level + 1) <= state.view.spp) level += 1;
  const bin = dt * factor ** level;
  const from = Math.max(0, Math.floor((time(0) - first) / bin) - 1), to = Math.ceil((time(width()) - first) / bin) + 1;
  const priors = state.project.run.class_ids.map(priorOf);
  const values = priors.map(() => new Float32Array(Math.max(0, to - from + 1)).fill(NaN));
  for (let number = Math.floor(from / perTile); number <= Math.floor(to / perTile); number++) {
    const data = tile(level, number);
    if (!data) continue;
    const start = number * perTile, last = Math.min(data.length / (2 * classes), to - start + 1);
    for (let i = Math.max(0, from - start); i < last; i++)
      for (let c = 0; c < classes; c++) values[c][start + i - from] = data[(i * classes + c) * 2 + 1] / priors[c];
  }
  return { values, left: x(first + (from + 0.5) * bin), step: bin / state.view.spp };
}

// roots, so that what happens around the threshold is seen beside scores that are many times as high
const yOf = (value, h, top = highest()) => h - 4 - Math.sqrt(Math.min(Math.max(0, value), top) / top) * (h - 12);
export const valueAt = (py, h) => Math.min(highest(), Math.max(0.4, Math.max(0, (h - 4 - py) / (h - 12)) ** 2 * highest()));

export function drawScores() {
  const canvas = $("scores");
  const { context, width: w, height: h } = fitted(canvas);
  const ready = state.project.run && state.scoreLevels.run === state.project.run.id && state.scoreLevels.levels > 0;
  $("threshold").hidden = !ready;
  const run = state.project.run;
  $("no-scores").textContent = ready ? "" : !run ? "Scores of each class appear here after training."
    : run.has_model ? "This recording has not been searched yet." : "These results came without scores; train to see them.";
  $("no-scores").hidden = ready;
  if (!ready) return;
  const found = bins();
  if (state.view.spp > STRIPS_FROM) strips(context, found, w, h); else lines(context, found, h);
  const factor = state.dragging ?? state.factor;
  const handle = $("threshold");
  handle.style.top = `${yOf(factor, h)}px`;
  handle.setAttribute("aria-valuenow", factor.toFixed(2));
  handle.setAttribute("aria-valuetext", `${factor.toFixed(2)} times the threshold of training`);
  if (!handle.firstChild) handle.append(document.createElement("span"));
  handle.firstChild.textContent = `threshold × ${factor.toFixed(2)}`;
  line(context, x(state.playhead), h);
}

function line(context, px, h) {
  context.fillStyle = colour("--bad");
  context.fillRect(px - 0.75, 0, 1.5, h);
}

function lines(context, found, h) {
  const ids = state.project.run.class_ids;
  ids.forEach((id, c) => curve(context, found, c, h, classColour(id), 1.4, classDash(id)));
  // the class that was decided for is bold inside its note, as in Figure 1 of the paper
  for (const d of inView(state.detections)) {
    const a = x(seconds(d.t0)), b = x(seconds(d.t1)), c = ids.indexOf(d.class_id);
    if (c < 0) continue;
    context.save();
    context.beginPath(); context.rect(a, 0, Math.max(2, b - a), h); context.clip();
    curve(context, found, c, h, classColour(d.class_id), 4, [], a, b);
    context.restore();
  }
}

/** The curve of a class, or the part of it between two places. */
function curve(context, { values, left, step }, c, h, ink, thick, dash, a = -Infinity, b = Infinity) {
  const row = values[c], top = highest();
  const first = Math.max(0, Math.floor((a - left) / step)), last = Math.min(row.length - 1, Math.ceil((b - left) / step));
  context.strokeStyle = ink; context.lineWidth = thick; context.setLineDash(dash);
  context.beginPath();
  let down = false;
  for (let i = first; i <= last; i++) {
    const value = row[i];
    if (Number.isNaN(value)) { down = false; continue; }
    if (down && i < last && value === row[i - 1] && value === row[i + 1]) continue;  // of what is flat, the ends suffice
    const px = left + i * step, py = yOf(value, h, top);
    if (down) context.lineTo(px, py); else context.moveTo(px, py);
    down = true;
  }
  context.stroke();
  context.setLineDash([]);
}

/** Zoomed out, curves are a solid block: one strip for each class, the darker the higher. */
function strips(context, { values, left, step }, w, h) {
  const ids = state.project.run.class_ids, high = (h - 8) / ids.length;
  const best = ids.map(() => new Float32Array(Math.ceil(w)));
  values.forEach((row, c) => row.forEach((v, i) => {
    const px = Math.floor(left + i * step);
    if (px >= 0 && px < w && v > best[c][px]) best[c][px] = v;
  }));
  best.forEach((row, c) => {
    context.fillStyle = classColour(ids[c]);
    row.forEach((v, px) => {
      if (v <= 0.2) return;
      context.globalAlpha = Math.min(1, 0.12 + (0.88 * v) / 2.5);
      context.fillRect(px, 4 + c * high, 1, high - 2);
    });
    context.globalAlpha = 1;
  });
}

export function drawScale() {
  const { context, width: w, height: h } = fitted($("scale"));
  context.fillStyle = colour("--dim");
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  if (state.view.spp <= STRIPS_FROM) {
    let last = h + 20;
    for (const v of [0, 0.5, 1, 2, 4, 6, 8, 12, 16, 24]) {
      const py = yOf(v, h);
      if (v > highest() || last - py < 14) continue;
      last = py;
      context.fillText(String(v), w - 10, Math.max(6, Math.min(h - 6, py)));
      context.fillRect(w - 6, py - 0.5, 6, 1);
    }
  }
  axisTitle(context, h < 100 ? "score" : "score ÷ threshold", h);
}
