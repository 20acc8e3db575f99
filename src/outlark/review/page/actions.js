// What people do: mark, label, judge, train, undo. Each is saved at once; verdicts are shown before the answer comes.

import { send, sendVerdict } from "./api.js";
import { alertUser, say } from "./dom.js";
import { askName } from "./dialogs.js";
import { apply, loadProject, openRecording, setStatuses, watch } from "./load.js";
import { playNote } from "./player.js";
import { changed, classOf, samples, seconds, state } from "./state.js";
import { className } from "./theme.js";
import { holdTiles } from "./tiles.js";
import { showNote, span, time, width, x } from "./view.js";

const EDGE_S = 0.005, PAUSE_MS = 90, HOLD_MS = 60;

/** Give the selection a class (null: an unknown note). */
export async function labelSelection(classId, role = "example") {
  const { t0, t1, low, high } = state.selection;
  const band = low === undefined ? {} : { low_hz: Math.max(0, low), high_hz: high };
  const body = { recording_id: state.recording.id, class_id: classId, t0: samples(t0), t1: samples(t1), role, ...band };
  state.selection = null;
  changed("selection", "view");
  const outcome = await send("POST", "/api/annotations", body);
  apply(outcome);
  if (outcome) { state.annotation = outcome.annotations[0]?.id ?? null; say(`${role === "negative" ? "Not " : ""}${className(classId)} marked from ${t0.toFixed(3)} to ${t1.toFixed(3)} s`); changed("view"); }
}

export async function newClass(label = "Name of the new class") {
  const name = await askName(label, state.project.classes.map((c) => c.name));
  if (!name) return null;
  const known = state.project.classes.find((c) => c.name === name);
  if (known) return known.id;
  const outcome = await send("POST", "/api/classes", { name });
  if (!outcome) return null;
  await loadProject();
  return state.project.classes.find((c) => c.name === name)?.id ?? null;
}

export async function labelAsNew() {
  const id = await newClass("Name of this note");
  if (id !== null && state.selection) await labelSelection(id);
  else if (id !== null && state.annotation !== null) await relabel(id);
}

export async function relabel(classId) {
  apply(await send("PATCH", `/api/annotations/${state.annotation}`, { class_id: classId }));
  say(`Relabelled as ${className(classId)}`);
}

export async function removeAnnotation() {
  if (state.annotation === null) return;
  const id = state.annotation;
  state.annotation = null;
  apply(await send("DELETE", `/api/annotations/${id}`));
  say("Annotation removed");
}

/** Move an edge of the selection or of the selected annotation. */
export async function moveEdge(which, direction) {
  const by = direction * EDGE_S;
  if (state.selection) {
    state.selection[which] += by;
    changed("selection", "view");
  } else if (state.annotation !== null) {
    const a = state.annotations.get(state.annotation);
    apply(await send("PATCH", `/api/annotations/${a.id}`, { [which]: Math.max(0, samples(seconds(a[which]) + by)) }));
  }
}

/** M: where a note begins, then where it ends. */
export function markHere() {
  if (state.markFrom === null) {
    state.markFrom = state.playhead;
    say(`Onset at ${state.playhead.toFixed(3)} s; move the cursor with , and . and press M at the end`);
  } else {
    const [t0, t1] = [state.markFrom, state.playhead].sort((a, b) => a - b);
    state.markFrom = null;
    if (t1 - t0 > 0.002) state.selection = { t0, t1 };
    changed("selection");
  }
  changed("view");
}

export function moveCursor(pixels) {
  state.playhead = Math.max(0, state.playhead + pixels * state.view.spp);
  const at = x(state.playhead);
  if (at < 0 || at > width()) showNote(state.playhead, state.playhead, span());
  changed("playhead", "view");
}

// ------------------------------------------------------------------ review

const STATUS = { confirm: "confirmed", reject: "rejected", relabel: "relabelled", unknown: "relabelled", unsure: "unsure" };

export const currentItem = () => state.queue.items[state.queue.at] ?? null;

export async function go(at, play = true) {
  const item = state.queue.items[at];
  if (!item) { say("End of the queue"); return; }
  state.queue.at = at;
  state.current = item.id;
  state.selection = null;
  state.annotation = null;
  changed("queue");
  holdTiles(HOLD_MS);
  if (!(await openRecording(item.recording_id)) || currentItem() !== item) return;
  showNote(seconds(item.t0), seconds(item.t1), Math.min(6, Math.max(span(), 1)));
  state.playhead = seconds(item.t0);
  changed("selection", "playhead", "view");
  clearTimeout(soon);
  // who judges faster than this does not want to hear it
  if (play) soon = setTimeout(() => { if (currentItem() === item) playNote(item.recording_id, seconds(item.t0), seconds(item.t1)); }, PAUSE_MS);
}
let soon = 0;

/** The next item that nobody has judged, from the current one on. */
export function goNext() {
  const { items, at } = state.queue;
  const pending = (item) => item.status === "pending";
  const after = items.slice(at + 1).findIndex(pending), next = after >= 0 ? at + 1 + after : items.findIndex(pending);
  if (next < 0) { say("Everything in this queue is reviewed"); changed("queue"); return; }
  go(next);
}

export function judge(verdict, classId = null) {
  const item = currentItem();
  if (!item) { say("Nothing is under review; press G"); return; }
  if (verdict === "relabel" && classId === item.class_id) { verdict = "confirm"; classId = null; }
  const shown = verdict === "unknown" && item.class_id == null ? "confirmed" : STATUS[verdict];
  setStatuses({ [item.id]: shown });
  say(`${className(item.class_id)}: ${verdict === "relabel" ? `is ${className(classId)}` : shown}`);
  const body = { detection_id: item.id, verdict, class_id: classId, queue: state.queue.order };
  sendVerdict(body).then(apply);
  goNext();
}

export function digit(number) {
  const found = state.project.classes[number - 1];
  if (!found) { say(`There is no class ${number}`); return; }
  if (state.selection) labelSelection(found.id);
  else if (state.annotation !== null) relabel(found.id);
  else if (currentItem()) judge("relabel", found.id);
  else say(`${found.name}: drag over a note first`);
}

/** "Not this": a negative example of a class, where the selection is. */
export async function notThis() {
  if (!state.selection) { judge("reject"); return; }
  const near = state.detections.find((d) => seconds(d.t0) < state.selection.t1 && seconds(d.t1) > state.selection.t0 && d.class_id != null);
  if (near) await labelSelection(near.class_id, "negative");
  else await labelAsNew();
}

export async function turn(back) {
  const outcome = await send("POST", back ? "/api/undo" : "/api/redo", {});
  if (!outcome) return;
  if (!outcome.kind) { say(back ? "Nothing to undo" : "Nothing to redo"); return; }
  say(`${back ? "Undone" : "Redone"}: ${outcome.kind}`);
  apply(outcome);
  if (outcome.thresholds) decide();
}

// ------------------------------------------------------------------- model

export async function train() {
  const learnable = state.project.classes.some((c) => c.examples > 0 || (state.project.run?.given && c.negatives > 0));
  if (!learnable) { alertUser("There is nothing to learn from yet: drag over a few notes of each class and name them."); return; }
  watch(await send("POST", "/api/train", { recording_id: state.recording.id }));
}
export async function decide() { watch(await send("POST", "/api/decide", {})); }
export async function scanRest() { watch(await send("POST", "/api/scan", { recording_id: state.recording.id })); }
export async function setThresholds(values) {
  if (await send("PUT", "/api/thresholds", { values })) await decide();
}
export const label = (id) => classOf(id)?.name;
export { time };
