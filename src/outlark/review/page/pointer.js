// The mouse and the pen: drag marks, click seeks and selects, wheel pans, Ctrl+wheel zooms.

import { labelAsNew, labelSelection, notThis } from "./actions.js";
import { $, el } from "./dom.js";
import { seek } from "./player.js";
import { hertz } from "./spectrogram.js";
import { changed, duration, on, seconds, state } from "./state.js";
import { chip, keyText } from "./theme.js";
import { pan, show, span, time, width, x, zoom } from "./view.js";

const CLICK_PX = 3, WIDE = 330;
let from = null;  // where a drag began

export function startPointer() {
  const canvas = $("spectrogram");
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    from = { px: event.offsetX, py: event.offsetY, box: event.shiftKey };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!from || Math.abs(event.offsetX - from.px) < CLICK_PX) return;
    state.selection = selected(from, event, canvas.clientHeight);
    changed("view");
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!from) return;
    const moved = Math.abs(event.offsetX - from.px) >= CLICK_PX;
    from = null;
    if (moved) { state.annotation = null; changed("selection", "view"); } else click(time(event.offsetX));
  });
  canvas.addEventListener("pointercancel", () => { from = null; });
  for (const id of ["spectrogram", "scores", "lanes", "ruler"]) $(id).addEventListener("wheel", wheel, { passive: false });
  $("lanes").addEventListener("click", (event) => clickLane(event));
  startOverview();
  on("selection", fillFloating);
  on("view", placeFloating);
}

function selected(from, event, height) {
  const [t0, t1] = [time(from.px), time(event.offsetX)].sort((a, b) => a - b);
  const selection = { t0: Math.max(0, t0), t1: Math.min(t1, duration()) };
  if (from.box) {
    const [low, high] = [hertz(from.py, height), hertz(event.offsetY, height)].sort((a, b) => a - b);
    Object.assign(selection, { low, high });
  }
  return selection;
}

function click(t) {
  state.selection = null;
  const own = [...state.annotations.values()].find((a) => a.role !== "unsure" && seconds(a.t0) <= t && t <= seconds(a.t1));
  state.annotation = own?.id ?? null;
  seek(t);
  select(t);
  changed("selection", "view");
}

/** What was found here becomes the item under review. */
function select(t) {
  const found = state.detections.find((d) => seconds(d.t0) <= t && t <= seconds(d.t1));
  if (!found || state.annotation !== null) return;
  state.current = found.id;
  const at = state.queue.items.findIndex((item) => item.id === found.id);
  if (at >= 0) state.queue.at = at;
  changed("queue");
}
function clickLane(event) { const t = time(event.offsetX); state.annotation = null; state.selection = null; seek(t); select(t); changed("selection", "view"); }

function wheel(event) {
  event.preventDefault();
  if (event.ctrlKey || event.metaKey) { zoom(Math.exp(event.deltaY * 0.004), event.offsetX); return; }
  const by = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.deltaY;
  pan((event.deltaMode === 1 ? by * 30 : by) / width());
}

function startOverview() {
  const canvas = $("overview");
  const move = (event) => show((event.offsetX / canvas.clientWidth) * duration() - span() / 2, span());
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); move(event); });
  canvas.addEventListener("pointermove", (event) => { if (event.buttons & 1) move(event); });
}

/** Buttons beside a fresh selection, for those who do not use keys. */
function fillFloating() {
  const box = $("floating"), chosen = state.selection;
  placeFloating();
  if (box.hidden) return;
  const classes = state.project.classes.slice(0, 9).map((c) =>
    el("button", { type: "button", onclick: () => labelSelection(c.id) }, chip(c.id), ` ${c.name} `, el("kbd", {}, keyText(c.id))));
  const over = state.detections.some((d) => d.class_id != null && seconds(d.t0) < chosen.t1 && seconds(d.t1) > chosen.t0);
  box.replaceChildren(
    el("p", {}, `${((chosen.t1 - chosen.t0) * 1000).toFixed(0)} ms from ${chosen.t0.toFixed(3)} s. Which class?`),
    ...classes,
    el("button", { type: "button", onclick: labelAsNew }, "New class… ", el("kbd", {}, "Enter")),
    el("button", { type: "button", onclick: () => labelSelection(null) }, "Unknown ", el("kbd", {}, "U")),
    ...(over ? [el("button", { type: "button", onclick: notThis }, "Not this ", el("kbd", {}, "N"))] : []),
  );
}

function placeFloating() {
  const box = $("floating"), chosen = state.selection;
  box.hidden = !chosen || state.dragging !== null || from !== null;
  if (box.hidden) return;
  const right = x(chosen.t1) + 8, fits = right + WIDE < width();  // beside the note, not over it
  box.style.left = `${fits ? Math.max(4, right) : Math.max(4, Math.min(x(chosen.t0) - 8, width()) - WIDE)}px`;
}
