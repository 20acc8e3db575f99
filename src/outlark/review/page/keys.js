// Keys: one for each action, never with Ctrl or Alt, never while something is typed.

import { currentItem, digit, go, goNext, judge, labelAsNew, labelSelection, markHere, moveCursor, moveEdge, notThis, removeAnnotation, train, turn } from "./actions.js";
import { say } from "./dom.js";
import { showExport, showKeys } from "./dialogs.js";
import { openGallery } from "./gallery.js";
import { playNote, playPause, toggleLoop } from "./player.js";
import { changed, duration, seconds, state } from "./state.js";
import { pan, show, showAll, span, zoom } from "./view.js";

/** The note that P plays: the selection, the annotation, or what is under review. */
export function playCurrent() {
  if (state.selection) { playNote(state.recording.id, state.selection.t0, state.selection.t1); return; }
  const note = state.annotations.get(state.annotation) ?? currentItem();
  if (note) playNote(note.recording_id, seconds(note.t0), seconds(note.t1));
  else say("Select a note first");
}

function cancel() { Object.assign(state, { selection: null, annotation: null, markFrom: null, dragging: null }); changed("selection", "view"); }

const LETTERS = {
  p: playCurrent, l: () => say(`Loop ${toggleLoop() ? "on" : "off"}`), j: () => go(state.queue.at + 1), k: () => go(Math.max(0, state.queue.at - 1)), g: goNext,
  y: () => judge("confirm"), n: notThis, u: () => (state.selection ? labelSelection(null) : judge("unknown")), s: () => judge("unsure"),
  z: () => turn(true), Z: () => turn(false), m: markHere, ",": () => moveCursor(-2), ".": () => moveCursor(2), "<": () => moveCursor(-40), ">": () => moveCursor(40),
  "[": () => moveEdge("t0", -1), "]": () => moveEdge("t0", 1), "{": () => moveEdge("t1", -1), "}": () => moveEdge("t1", 1),
  t: train, e: showExport, c: () => openGallery(), "?": showKeys, "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), 0: showAll, " ": playPause,
};
const OTHERS = {
  ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25), Home: () => show(0, span()), End: () => show(duration(), span()),
  ArrowDown: () => go(state.queue.at + 1), ArrowUp: () => go(Math.max(0, state.queue.at - 1)), Delete: removeAnnotation, Backspace: removeAnnotation, Escape: cancel,
  Enter: () => { if (state.selection) labelAsNew(); },
};

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented || !state.recording) return;
    const at = /** @type {HTMLElement} */ (event.target);
    if (at.closest("input:not([type=range]), select, textarea, dialog[open]")) return;
    const onButton = at.closest("button, [role=tab]");
    if (onButton && (event.key === "Enter" || event.key === " ")) return;
    if (at.closest("input[type=range], [role=slider], [role=tablist]") && event.key.startsWith("Arrow")) return;
    const action = OTHERS[event.key] ?? (letters() ? LETTERS[event.key] ?? digitAction(event.key) : null);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

const letters = () => localStorage.getItem("outlark letters") !== "off";
const digitAction = (key) => (/^[1-9]$/.test(key) ? () => digit(Number(key)) : null);
