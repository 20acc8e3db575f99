// Track (a): the spectrogram with its axes, annotations and detections.

import { $, colour, fitted, timeText } from "./dom.js";
import { duration, seconds, state } from "./state.js";
import { classColour, classGlyph } from "./theme.js";
import { forgetWanted, pending, tile } from "./tiles.js";
import { inView, step, time, TIME_STEPS, width, x } from "./view.js";

/** The coarsest level that has a column for each pixel. */
function levelFor(spp) {
  const { levels, sample_rate } = state.recording;
  let best = 0;
  levels.forEach((level, k) => { if (level.hop / sample_rate <= spp * 1.01) best = k; });
  return best;
}

/** Where a frequency is drawn. */
export const y = (hz, height) => height * (1 - hz / state.top);
export const hertz = (py, height) => state.top * (1 - py / height);

export function drawSpectrogram() {
  const canvas = $("spectrogram");
  const { context, width: w, height: h } = fitted(canvas);
  forgetWanted();
  const level = levelFor(state.view.spp);
  const coarsest = state.recording.levels.length - 1;
  for (const k of [Math.min(coarsest, level + 3), level]) drawLevel(context, k, w, h);
  drawBoxes(context, h);
  drawSelection(context, h);
  drawPlayhead(context, h);
  Object.assign(canvas.dataset, { recording: state.recording.id, t0: state.view.t0, spp: state.view.spp, level, pending: pending() });
}

function drawLevel(context, k, w, h) {
  const { levels, sample_rate, rows, tile_columns } = state.recording;
  const { hop, edge, columns } = levels[k];
  const perTile = (tile_columns * hop) / sample_rate, left = edge / sample_rate;
  const last = Math.ceil(columns / tile_columns) - 1;
  const from = Math.max(0, Math.floor((time(0) - left) / perTile));
  const to = Math.min(last, Math.floor((time(w) - left) / perTile));
  const nyquist = sample_rate / 2, row = nyquist / rows;
  context.imageSmoothingEnabled = true;
  for (let i = from; i <= to; i++) {
    const image = tile(k, i);
    if (!image) continue;
    const start = x(left + i * perTile), wide = (image.width * hop) / sample_rate / state.view.spp;
    // row r is the frequency (r + 1) · row: half a row lies below it
    const top = y(nyquist + row / 2, h), bottom = y(row / 2, h);
    context.drawImage(image, start, top, wide, bottom - top);
  }
}

function drawBoxes(context, h) {
  const shown = state.view.spp < 0.05;
  context.font = "600 12px system-ui, sans-serif";
  for (const d of shown && state.dragging === null ? inView(state.detections) : []) {
    const a = x(seconds(d.t0)), b = x(seconds(d.t1));
    const low = y(d.low_hz ?? 0, h), high = y(d.high_hz ?? state.top, h);
    context.strokeStyle = classColour(d.class_id);
    context.lineWidth = d.id === state.current ? 3 : 1.25;
    context.setLineDash(d.class_id == null || d.status === "rejected" ? [4, 3] : []);
    context.strokeRect(a, Math.max(1, high), b - a, Math.min(h - 1, low) - Math.max(1, high));
  }
  context.setLineDash([]);
  for (const a of state.annotations.values()) {
    if (a.role === "unsure" || a.role === "negative") continue;
    const from = x(seconds(a.t0)), to = x(seconds(a.t1));
    if (to < 0 || from > width()) continue;
    const ink = classColour(a.class_id);
    context.fillStyle = ink;
    context.globalAlpha = a.id === state.annotation ? 0.32 : 0.16;
    context.fillRect(from, 0, Math.max(2, to - from), h);
    context.globalAlpha = 1;
    context.fillRect(from, 0, Math.max(2, to - from), a.id === state.annotation ? 6 : 4);
    if (to - from > 14) label(context, `${classGlyph(a.class_id)}`, from + 3, 18, ink);
  }
}

function label(context, text, px, py, ink) {
  context.lineWidth = 3;
  context.strokeStyle = colour("--panel");
  context.strokeText(text, px, py);
  context.fillStyle = ink;
  context.fillText(text, px, py);
}

function drawSelection(context, h) {
  if (state.markFrom !== null) line(context, x(state.markFrom), h, colour("--accent"), [6, 3]);
  if (!state.selection) return;
  const { t0, t1, low, high } = state.selection;
  const a = x(t0), b = x(t1), top = high ? y(high, h) : 0, bottom = low ? y(low, h) : h;
  context.fillStyle = colour("--shade");
  context.fillRect(a, top, b - a, bottom - top);
  context.strokeStyle = colour("--accent");
  context.lineWidth = 2;
  context.strokeRect(a, top + 1, b - a, bottom - top - 2);
}

function line(context, px, h, ink, dash) {
  context.strokeStyle = ink;
  context.lineWidth = 1.5;
  context.setLineDash(dash);
  context.beginPath(); context.moveTo(px, 0); context.lineTo(px, h); context.stroke();
  context.setLineDash([]);
}
const drawPlayhead = (context, h) => line(context, x(state.playhead), h, colour("--bad"), []);

export function drawHertz() {
  const { context, width: w, height: h } = fitted($("hertz"));
  context.fillStyle = colour("--dim");
  context.strokeStyle = colour("--dim");
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  const by = step(state.top / h, 26, [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000]);
  for (let hz = 0; hz <= state.top; hz += by) {
    const py = Math.min(h - 6, Math.max(7, y(hz, h)));
    const text = state.top >= 2000 ? String(hz / 1000) : String(hz);
    context.fillText(text, w - 10, py);
    context.fillRect(w - 6, y(hz, h) - 0.5, 6, 1);
  }
  axisTitle(context, state.top >= 2000 ? "frequency (kHz)" : "frequency (Hz)", h);
}

export function axisTitle(context, text, h) {
  context.save();
  context.translate(9, h / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, 0, 0);
  context.restore();
}

export function drawRuler() {
  const { context, width: w, height: h } = fitted($("ruler"));
  context.fillStyle = colour("--dim");
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  const by = step(state.view.spp, 90, TIME_STEPS), digits = Math.max(0, Math.ceil(-Math.log10(by) - 1e-9));
  for (let k = Math.ceil(time(0) / by); k * by <= Math.min(time(w), duration()); k++) {
    const px = x(k * by);
    context.fillRect(px - 0.5, h - 6, 1, 6);
    const edge = Math.min(w - 24, Math.max(22, px));
    context.fillText(timeText(k * by, digits), edge, h - 9);
    if (state.recording.began) context.fillText(dayTime(k * by), edge, 10);
  }
}

/** Time of day, where the recorder tells when it began. */
export function dayTime(t) {
  const { began, expansion } = state.recording;
  const [, h, m, s] = began.match(/T(\d+):(\d+):(\d+)/).map(Number);
  const total = h * 3600 + m * 60 + s + t / expansion;
  const part = (n) => String(Math.floor(n)).padStart(2, "0");
  return `${part((total / 3600) % 24)}:${part((total / 60) % 60)}:${part(total % 60)}`;
}
