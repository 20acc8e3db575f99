// What people do: mark, label, judge, train, undo. Each is saved at once; verdicts are shown before the answer comes.

import { request } from "./api.js";
import { alertUser, say, tell } from "./dom.js";
import { askName } from "./dialogs.js";
import { loadProject, openRecording, put, watch } from "./load.js";
import { allSaved, drop, lastUnsaved, needsServer, send, unsaved } from "./outbox.js";
import { playNote } from "./player.js";
import { loadQueue, lookAhead, nextPending } from "./queue.js";
import { changed, duration, on, samples, seconds, state } from "./state.js";
import { className } from "./theme.js";
import { holdTiles } from "./tiles.js";
import { cursorInView, showNote, span, width, x } from "./view.js";

const EDGE_S = 0.005, PAUSE_MS = 90, HOLD_MS = 60;
let sketches = 0;

/** Show a change at once and send it. */
function change(method, path, body, effect) {
  put(effect.shows);
  return send(method, path, body, effect);
}
const placeOf = ({ recording_id, t0, t1 }) => ({ recording_id, t0, t1 });

/** Give a part of the recording a class (null: an unknown note). */
export async function labelSelection(classId, role = "example", { t0, t1, low, high } = state.selection, recording = state.recording) {
  const band = low === undefined ? {} : { low_hz: Math.max(0, low), high_hz: high };
  const rate = recording.sample_rate, body = { recording_id: recording.id, class_id: classId, t0: Math.round(t0 * rate), t1: Math.round(t1 * rate), role, ...band };
  const sketch = { ...body, id: -(++sketches) };  // until the server has given it a number
  state.selection = null;
  changed("selection");
  say(`${role === "negative" ? "Not " : ""}${className(classId)} marked from ${t0.toFixed(3)} to ${t1.toFixed(3)} s`);
  const outcome = await change("POST", "/api/annotations", body, { shows: { annotations: [sketch] }, was: { removed: [sketch.id] }, place: placeOf(body) });
  const [row] = outcome?.annotations ?? [];
  if (row && !state.selection && row.recording_id === state.recording.id) { state.annotation = row.id; changed("view"); }
}

export async function newClass(label = "Name of the new class") {
  if (needsServer("A new class")) return null;
  const name = await askName(label, state.project.classes.map((c) => c.name));
  if (!name) return null;
  const known = () => state.project.classes.find((c) => c.name === name)?.id ?? null;
  if (known() !== null) return known();
  const outcome = await send("POST", "/api/classes", { name });
  if (!outcome) return null;
  await loadProject();
  return outcome.classes?.[0]?.id ?? known();
}

export async function labelAsNew() {
  const { selection, annotation, recording } = state;
  const id = await newClass("Name of this note");
  if (id !== null && selection) await labelSelection(id, "example", selection, recording);
  else if (id !== null && annotation !== null) await relabel(id, annotation);
}

/** The selected annotation, if it is one that can be changed. */
function changeable(id = state.annotation) {
  const row = state.annotations.get(id) ?? null;
  if (row && row.id < 0) { say("This annotation is not saved yet; undo (Z) takes it back"); return null; }
  return row;
}

export async function relabel(classId, id = state.annotation) {
  const row = changeable(id);
  if (!row) return;
  say(`Relabelled as ${className(classId)}`);
  const shows = { annotations: [{ ...row, class_id: classId }] };
  await change("PATCH", `/api/annotations/${row.id}`, { class_id: classId }, { shows, was: { annotations: [row] }, place: placeOf(row) });
}

export async function removeAnnotation() {
  const row = changeable();
  if (!row) return;
  state.annotation = null;
  say("Annotation removed");
  await change("DELETE", `/api/annotations/${row.id}`, undefined, { shows: { removed: [row.id] }, was: { annotations: [row] }, place: placeOf(row) });
}

/** Where an edge comes to lie: within the recording, and not beyond the other edge. */
function moved({ t0, t1 }, which, by) {
  if (which === "t0") return { t0: Math.max(0, Math.min(t0 + by, Math.max(t0, t1 - EDGE_S))), t1 };
  return { t0, t1: Math.min(duration(), Math.max(t1 + by, Math.min(t1, t0 + EDGE_S))) };
}

/** Move an edge of the selection or of the selected annotation. */
export async function moveEdge(which, direction) {
  const row = state.selection ? null : changeable();
  if (!state.selection && !row) return;
  const from = row ? { t0: seconds(row.t0), t1: seconds(row.t1) } : state.selection;
  const to = moved(from, which, direction * EDGE_S);
  if (Math.abs(to[which] - from[which]) < 1e-4) { say(which === "t0" ? "The onset cannot move further" : "The end cannot move further"); return; }
  if (!row) { Object.assign(state.selection, to); changed("selection", "view"); return; }
  const body = { [which]: samples(to[which]) };
  await change("PATCH", `/api/annotations/${row.id}`, body, { shows: { annotations: [{ ...row, ...body }] }, was: { annotations: [row] }, place: placeOf(row) });
}

/** M: where a note begins, then where it ends. */
export function markHere() {
  cursorInView();
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
  cursorInView();
  state.playhead = Math.min(duration(), Math.max(0, state.playhead + pixels * state.view.spp));
  const at = x(state.playhead);
  if (at < 0 || at > width()) showNote(state.playhead, state.playhead, span());
  changed("playhead", "view");
}

// ------------------------------------------------------------------ review

const STATUS = { confirm: "confirmed", reject: "rejected", relabel: "relabelled", unknown: "relabelled", unsure: "unsure" };

/** The note under review. */
export const currentItem = () => state.queue.itemOf.get(state.current) ?? state.detectionOf.get(state.current) ?? null;

export async function go(at, play = true) {
  const item = state.queue.items[at];
  if (!item) { say("End of the queue"); return; }
  state.queue.at = at;
  state.current = item.id;
  state.selection = null;
  state.annotation = null;
  lookAhead();
  changed("queue");
  holdTiles(HOLD_MS);
  unseen = null;
  const fail = (error) => { unseen = item.id; say(`This note cannot be shown now: ${error.message}`); return false; };
  if (!(await openRecording(item.recording_id).catch(fail)) || currentItem() !== item) return;
  showNote(seconds(item.t0), seconds(item.t1), Math.min(6, Math.max(span(), 1)));
  state.playhead = seconds(item.t0);
  changed("selection", "playhead", "view");
  clearTimeout(soon);
  // who judges faster than this does not want to hear it
  if (play) soon = setTimeout(() => { if (currentItem() === item) playNote(item.recording_id, seconds(item.t0), seconds(item.t1)); }, PAUSE_MS);
}
let soon = 0;
/** @type {number | null} */ let unseen = null;  // the note under review, if the recording could not be opened for it
on("connection", () => { if (!state.trouble && unseen !== null && unseen === state.current) go(state.queue.at); });

/** The next item that nobody has judged, from the current one on. */
export async function goNext() {
  let next = await nextPending();
  if (next === -1 && state.queue.reviewed < state.queue.total && !unsaved()) {  // counted by the server: another tab may have undone one
    await loadQueue().catch(tell);
    next = await nextPending();
  }
  if (next >= 0) { go(next); return; }
  if (next === -1) say("End of the queue");
  changed("queue");
}

export function judge(verdict, classId = null) {
  const item = currentItem();
  if (!item) { say("Nothing is under review; press G"); return; }
  if (verdict === "relabel" && classId === item.class_id) { verdict = "confirm"; classId = null; }
  const status = verdict === "unknown" && item.class_id == null ? "confirmed" : STATUS[verdict];
  say(`${className(item.class_id)}: ${verdict === "relabel" ? `is ${className(classId)}` : status}`);
  const found = { ...placeOf(item), class_id: item.class_id, score: item.score };  // the detection may be replaced before this is sent
  const body = { detection_id: item.id, found, verdict, class_id: classId, queue: state.queue.order };
  change("POST", "/api/reviews", body, { shows: { statuses: { [item.id]: status } }, was: { statuses: { [item.id]: item.status } }, place: placeOf(item) });
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
  const last = back ? lastUnsaved() : null;
  if (last && drop(last)) { say("Undone: it had not been sent yet"); put(last.was); showPlace(last.place); return; }
  if (!last && needsServer(back ? "Undo of what is saved" : "Redo")) return;
  if (last) { put(last.was); showPlace(last.place); }
  const outcome = await (back ? send("POST", "/api/undo", last ? { of: last.key } : {}, last ? { shows: last.was } : {}) : send("POST", "/api/redo", {}));
  if (!outcome || outcome.again) return;
  if (!outcome.kind) { say(back ? "Nothing to undo" : "Nothing to redo"); return; }
  say(`${back ? "Undone" : "Redone"}: ${outcome.kind}`);
  if (!last) showPlace(outcome.place);
}

/** Show where a change was made, with the note of the change under review. */
async function showPlace(place) {
  if (!place || !(await openRecording(place.recording_id).catch(() => false))) return;
  const there = (row) => row.t0 === place.t0 && row.t1 === place.t1, found = state.detections.find(there);
  state.selection = null;
  state.annotation = found ? null : [...state.annotations.values()].find(there)?.id ?? null;
  if (found) {
    state.current = found.id;
    const at = state.queue.items.findIndex((item) => item.id === found.id);
    if (at >= 0) state.queue.at = at;
  }
  state.playhead = seconds(place.t0);
  showNote(seconds(place.t0), seconds(place.t1), Math.min(6, Math.max(span(), 1)));
  changed("queue", "selection", "playhead", "view");
}

// ------------------------------------------------------------------- model

/** Start a job of the server, once all changes are saved. */
async function startJob(what, path, body) {
  if (needsServer(what)) return;
  if (!(await allSaved())) { alertUser(`${what} has to wait: changes are not saved yet.`); return; }
  try { watch(await (await request("POST", path, body)).json()); } catch (error) { alertUser(error.message); }
}

export async function train() {
  const learnable = state.project.classes.some((c) => c.examples > 0 || (state.project.run?.given && c.negatives > 0));
  if (!learnable) { alertUser("There is nothing to learn from yet: drag over a few notes of each class and name them."); return; }
  await startJob("Training", "/api/train", { recording_id: state.recording.id });
}
export const decide = () => startJob("A new threshold", "/api/decide", {});
export const scanRest = () => startJob("Searching", "/api/scan", { recording_id: state.recording.id });
export const setThresholds = (values) => send("PUT", "/api/thresholds", { values });
