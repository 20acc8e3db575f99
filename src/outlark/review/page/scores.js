// Track (b): score curves relative to the thresholds of training, and one threshold that can be dragged.

import { bytes } from "./api.js";
import { $, colour, fitted } from "./dom.js";
import { changed, priorOf, seconds, state } from "./state.js";
import { axisTitle } from "./spectrogram.js";
import { classColour, classDash } from "./theme.js";
import { time, width, x } from "./view.js";

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
  const { id } = state.recording, run = state.project.run.id;
  const key = `${id}/${run}/${level}/${number}`;
  if (!tiles.has(key)) {
    if (flying >= 8) return null;
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

/** The bins in view: time of each, and for each class its largest score relative to training. */
function bins() {
  const { levels, factor, bins: perTile, dt, first, classes } = state.scoreLevels;
  let level = 0;
  while (level + 1 < levels && dt * factor ** (level + 1) <= state.view.spp) level += 1;
  const bin = dt * factor ** level, found = [];
  const from = Math.max(0, Math.floor((time(0) - first) / bin) - 1), to = Math.ceil((time(width()) - first) / bin) + 1;
  const priors = state.project.run.class_ids.map(priorOf);
  for (let number = Math.floor(from / perTile); number <= Math.floor(to / perTile); number++) {
    const data = tile(level, number);
    if (!data) continue;
    const n = data.length / (2 * classes);
    for (let i = Math.max(0, from - number * perTile); i < Math.min(n, to - number * perTile + 1); i++) {
      const values = priors.map((prior, c) => data[(i * classes + c) * 2 + 1] / prior);
      found.push([first + (number * perTile + i + 0.5) * bin, values]);
    }
  }
  return { found, bin };
}

// roots, so that what happens around the threshold is seen beside scores that are many times as high
const yOf = (value, h) => h - 4 - Math.sqrt(Math.min(Math.max(0, value), highest()) / highest()) * (h - 12);
export const valueAt = (py, h) => Math.min(highest(), Math.max(0.4, Math.max(0, (h - 4 - py) / (h - 12)) ** 2 * highest()));

export function drawScores() {
  const canvas = $("scores");
  const { context, width: w, height: h } = fitted(canvas);
  const ready = state.project.run && state.scoreLevels.levels > 0;
  $("threshold").hidden = !ready;
  const run = state.project.run;
  $("no-scores").textContent = ready ? "" : !run ? "Scores of each class appear here after training."
    : run.has_model ? "This recording has not been searched yet." : "These results came without scores; train to see them.";
  $("no-scores").hidden = ready;
  if (!ready) return;
  const { found } = bins();
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
  for (const d of state.detections) {
    const a = x(seconds(d.t0)), b = x(seconds(d.t1)), c = ids.indexOf(d.class_id);
    if (c < 0 || b < 0 || a > width()) continue;
    context.save();
    context.beginPath(); context.rect(a, 0, Math.max(2, b - a), h); context.clip();
    curve(context, found, c, h, classColour(d.class_id), 4, []);
    context.restore();
  }
}

function curve(context, found, c, h, ink, thick, dash) {
  context.strokeStyle = ink; context.lineWidth = thick; context.setLineDash(dash);
  context.beginPath();
  let before = null;
  for (const [t, values] of found) {
    const px = x(t), py = yOf(values[c], h);
    if (before === null) context.moveTo(px, py); else context.lineTo(px, py);
    before = t;
  }
  context.stroke();
  context.setLineDash([]);
}

/** Zoomed out, curves are a solid block: one strip for each class, the darker the higher. */
function strips(context, found, w, h) {
  const ids = state.project.run.class_ids, high = (h - 8) / ids.length;
  const best = ids.map(() => new Float32Array(Math.ceil(w)));
  for (const [t, values] of found) {
    const px = Math.floor(x(t));
    if (px >= 0 && px < w) values.forEach((v, c) => { best[c][px] = Math.max(best[c][px], v); });
  }
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
  axisTitle(context, "score ÷ threshold", h);
}
