// One view for all tracks: which part of the recording is shown, and how to move it.

import { $, sizeOf, timeText } from "./dom.js";
import { changed, duration, state } from "./state.js";

const SHORTEST_S = 0.02;

export const width = () => Math.max(1, sizeOf($("spectrogram")).width);
export const x = (t) => (t - state.view.t0) / state.view.spp;
export const time = (px) => state.view.t0 + px * state.view.spp;
export const span = () => state.view.spp * width();

export function show(t0, seconds) {
  const whole = duration();
  const wide = Math.min(Math.max(seconds, SHORTEST_S), whole);
  state.view.spp = wide / width();
  state.view.t0 = Math.min(Math.max(0, t0), Math.max(0, whole - wide));
  $("span").textContent = wide >= 100 ? timeText(wide, 0) : `${wide.toPrecision(3)} s`;
  changed("view");
}
/** The cursor, if it was left behind by panning or zooming, comes to what is in view: nobody wants to be thrown back to it. */
export function cursorInView() {
  const at = x(state.playhead);
  if (at < 0 || at > width()) state.playhead = Math.min(duration(), Math.max(0, state.view.t0));
}
export const pan = (share) => show(state.view.t0 + share * span(), span());
export function zoom(factor, at = width() / 2) {
  const t = time(at), wide = Math.min(Math.max(span() * factor, SHORTEST_S), duration());
  show(t - at * (wide / width()), wide);
}
export const showAll = () => show(0, duration());
export function showNote(t0, t1, seconds = 6) {
  const wide = Math.max(Math.min(seconds, duration()), 2 * (t1 - t0));
  show((t0 + t1) / 2 - wide / 2, wide);
}

const longest = new WeakMap();
/** Those of a list of spans in samples, ordered by onset, that are in view. */
export function inView(list) {
  if (!longest.has(list)) longest.set(list, list.reduce((most, d) => Math.max(most, d.t1 - d.t0), 0));
  const rate = state.recording.sample_rate;
  return list.slice(firstFrom(list, time(0) * rate - longest.get(list)), firstFrom(list, time(width()) * rate));
}
function firstFrom(list, sample) {
  let low = 0, high = list.length;
  while (low < high) { const middle = (low + high) >> 1; if (list[middle].t0 < sample) low = middle + 1; else high = middle; }
  return low;
}

/** Round steps of an axis: at most one mark every so many pixels. */
export function step(perPixel, pixels, steps) {
  const least = perPixel * pixels;
  return steps.find((s) => s >= least) ?? steps[steps.length - 1];
}
export const TIME_STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600, 7200];
