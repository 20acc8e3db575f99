// Spectrogram tiles: fetched as bytes, coloured here, so that brightness and colours cost no request.

import { bytes } from "./api.js";
import * as luts from "./luts.js";
import { changed, state } from "./state.js";
import { isDark } from "./theme.js";

const MOST_TILES = 160, IN_FLIGHT = 10, AGAIN_MS = 400;
const tiles = new Map();      // key → {bytes, canvas, coloured, columns}; the order is that of use
let flying = 0, wanted = [], heldUntil = 0;
let table = new Uint32Array(256), tableNumber = 0;

/** Make the table from bytes to colours anew. */
export function recolour(palette, brightness, contrast) {
  const rgb = palette === "grey" ? null : Uint8Array.from(atob(luts[palette]), (c) => c.charCodeAt(0));
  const { low, high } = state.recording ?? { low: 60, high: 200 };
  const range = ((high - low) * 100) / contrast;
  const pixels = new Uint8ClampedArray(table.buffer);
  for (let b = 0; b < 256; b++) {
    const share = Math.min(1, Math.max(0, (b - low + brightness) / range));
    const level = Math.round(255 * share), grey = isDark() ? level : 255 - level;
    const [r, g, v] = rgb ? rgb.subarray(3 * level, 3 * level + 3) : [grey, grey, grey];
    pixels.set([r, g, v, 255], 4 * b);
  }
  tableNumber += 1;
}

/** Bytes, column after column, as an image with high frequencies on top. */
export function paint(canvas, data, rows) {
  const columns = data.length / rows;
  canvas.width = columns; canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let r = rows - 1, k = 0; r >= 0; r--)
    for (let at = r; at < data.length; at += rows) pixels[k++] = table[data[at]];
  context.putImageData(image, 0, 0);
}

const keyOf = (level, number) => `${state.recording.version}/${level}/${number}`;

/** The image of a tile, if it is there; it is fetched if not. */
export function tile(level, number, fetchIt = true) {
  const key = keyOf(level, number);
  const found = tiles.get(key);
  if (!found) {
    if (fetchIt) { wanted = wanted.filter((w) => w.key !== key); wanted.push({ key, level, number }); pump(); }
    return null;
  }
  tiles.delete(key); tiles.set(key, found);
  if (!found.bytes) return null;
  if (found.coloured !== tableNumber) { paint(found.canvas, found.bytes, state.recording.rows); found.coloured = tableNumber; }
  return found.canvas;
}

export const pending = () => flying + wanted.length;
/** What is no longer in view need not be fetched. */
export function forgetWanted() { wanted = []; }
export function clearTiles() { tiles.clear(); wanted = []; }

/** Fetch nothing for a moment: what is judged within it need not be drawn sharply. */
export function holdTiles(ms) {
  heldUntil = performance.now() + ms;
  setTimeout(pump, ms + 1);
}
export const held = () => performance.now() < heldUntil;

function pump() {
  if (held()) return;
  while (flying < IN_FLIGHT && wanted.length) {
    const next = wanted.pop();
    if (!tiles.has(next.key)) load(next);
  }
}

async function load({ key, level, number }) {
  flying += 1;
  const { id, version } = state.recording;
  tiles.set(key, { bytes: null });
  try {
    const response = await bytes(`/api/recordings/${id}/tiles/${level}/${number}?v=${version}`);
    const data = new Uint8Array(await response.arrayBuffer());
    const canvas = document.createElement("canvas");
    paint(canvas, data, state.recording.rows);  // here, not while a frame is drawn
    tiles.set(key, { bytes: data, canvas, coloured: tableNumber });
    if (response.headers.get("x-incomplete")) setTimeout(() => { tiles.delete(key); changed("view"); }, AGAIN_MS);
    while (tiles.size > MOST_TILES) tiles.delete(tiles.keys().next().value);
  } catch (error) {
    setTimeout(() => { tiles.delete(key); changed("view"); }, 5000);
    if (error.status !== 0) { state.recording.error = error.message; changed("trouble"); }
  } finally {
    flying -= 1;
    changed("view");
    pump();
  }
}
