// What is around the tracks: header, classes, unknown sounds, first steps.

import { train, scanRest } from "./actions.js";
import { $, el, say } from "./dom.js";
import { confirmed, editName } from "./dialogs.js";
import { openGallery } from "./gallery.js";
import { openRecording } from "./load.js";
import { needsServer, send } from "./outbox.js";
import { on, seconds, state } from "./state.js";
import { chip, keyText } from "./theme.js";
import { showNote } from "./view.js";

const ENOUGH = 3;
const NO_GROUPS = $("no-clusters").textContent;
const many = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

export function startPanels() {
  on("project", drawHeader);
  on("project", drawClasses);
  on("project", drawClusters);
  on("project", drawRemarks);
  on("project", drawSteps);
  on("job", drawHeader);
}

function drawHeader() {
  const { project } = state;
  if (!project) return;
  const { run } = project, busy = !$("job").hidden;
  const examples = project.classes.reduce((sum, c) => sum + c.examples, 0);
  const parts = [many(examples, run?.given ? "correction" : "example")];
  if (run) parts.push(run.given ? ` to ${run.given}${run.id > 1 ? `, trained again (model ${run.id})` : ""} ` : ` · model ${run.id} `);
  $("model").replaceChildren(...parts);
  if (run?.new) $("model").append(el("span", { class: "stale", title: "since the model was trained" }, `· ${many(run.new, "new label")}`));
  else if (run?.has_model) $("model").append("· up to date");
  const left = run?.has_model ? project.recordings.filter((r) => !r.searched).length : 0;
  if (left && !busy) $("model").append(" ", el("button", { type: "button", onclick: scanRest }, `Search ${many(left, "more recording")}`));
  $("train").firstChild.textContent = run ? "Train again " : "Train ";
  $("train").title = run?.given ? `Train ${run.given} again, on its own examples and your corrections (T)` : "Train on your examples (T)";
  $("train").disabled = busy || !(examples || (run?.given && project.classes.some((c) => c.negatives)));
  $("undo").disabled = !project.undo;
  $("redo").disabled = !project.redo;
}

function drawClasses() {
  const { project } = state;
  if (!project) return;
  $("no-classes").hidden = project.classes.length > 0;
  $("classes").replaceChildren(...project.classes.map(classRow));
}

function classRow(c) {
  const estimate = state.project.precision[c.id];
  const parts = [c.of_model ? `${many(c.of_model, "example")} of the model` : many(c.examples, "example")];
  if (c.of_model && c.examples) parts.push(`${c.examples} corrected`);
  if (c.in_model) parts.push(`${c.found} found`);
  if (c.negatives) parts.push(`${c.negatives} rejected`);
  if (estimate) parts.push(`precision ${Math.round((100 * estimate.right) / estimate.n)} % (${Math.round(100 * estimate.low)}–${Math.round(100 * estimate.high)})`);
  const odd = c.odd.map((o) => el("button", { class: "odd", type: "button", onclick: () => showExample(o.annotation) }, `example ${o.number} ${o.problem}`));
  const remarks = c.remarks.map((remark) => el("p", { class: "remark" }, remark));
  const key = keyText(c.id);
  return el("li", {}, el("div", { class: "line" }, chip(c.id), el("span", { class: "name", title: c.name }, c.name), key ? el("kbd", {}, key) : null,
    el("button", { class: "more", type: "button", "aria-label": `Rename or delete ${c.name}`, onclick: () => editClass(c) }, "…")),
  el("small", {}, ...parts.flatMap((part, k) => [k ? " · " : null, el("span", {}, part)])), ...odd, ...remarks);
}

/** Show the example that is odd, in its recording. */
async function showExample(id) {
  let row = state.annotations.get(id);
  if (!row) {
    for (const r of state.project.recordings) {
      await openRecording(r.id);
      row = state.annotations.get(id);
      if (row) break;
    }
  }
  if (!row) return;
  state.annotation = id;
  showNote(seconds(row.t0), seconds(row.t1), 3);
}

async function editClass(c) {
  if (needsServer("Renaming or deleting a class")) return;
  const { name, remove } = await editName(c.name);
  if (remove) {
    if (await confirmed(`Delete ${c.name} and its ${many(c.examples + c.negatives, "annotation")}?`, "Delete") && (await send("DELETE", `/api/classes/${c.id}`))) say(`${c.name} was deleted; undo (Z) brings it back`);
  } else if (name && name !== c.name) await send("PATCH", `/api/classes/${c.id}`, { name });
}

/** What was noticed in training, besides what concerns one class, and in searching: each once, with its recordings. */
function drawRemarks() {
  const { project } = state;
  if (!project) return;
  const recordings = new Map();
  for (const r of project.recordings) for (const remark of r.remarks) recordings.set(remark, [...(recordings.get(remark) ?? []), r.short]);
  const heard = [...recordings].map(([remark, names]) => `${names.length === 1 ? names[0] : many(names.length, "recording")}: ${remark}`);
  const all = [...(project.run?.remarks ?? []), ...heard];
  $("remarks").hidden = !all.length;
  $("remark-list").replaceChildren(...all.map((remark) => el("li", { class: "remark" }, remark)));
}

function drawClusters() {
  const { project } = state;
  if (!project) return;
  $("no-clusters").hidden = project.clusters.length > 0;
  $("no-clusters").textContent = project.grouping ? "The unknown sounds are being grouped…" : NO_GROUPS;
  $("clusters").setAttribute("aria-busy", String(project.grouping));
  $("gallery-open").disabled = !project.clusters.length;
  $("clusters").replaceChildren(...project.clusters.map((c) =>
    el("li", {}, el("button", { type: "button", onclick: () => openGallery(c.id) }, chip(null), `Unknown ${c.name}`, el("small", {}, `${c.size} alike`)))));
}

/** What to do first, until there is something to review. */
function drawSteps() {
  const { project } = state;
  if (!project) return;
  $("steps").hidden = project.run !== null;
  $("reviewing").hidden = project.run === null;
  if (project.run) return;
  const counts = project.classes.map((c) => c.examples), marked = counts.length > 0 && Math.min(...counts) >= ENOUGH;
  const step = (title, text, now, done) => el("li", { class: now ? "now" : done ? "done" : "" }, el("h3", {}, title), el("p", {}, text));
  const first = counts.length ? project.classes.map((c) => `${c.name}: ${c.examples}`).join(", ") + "." : "Drag over a note in the spectrogram, then press 1–9 or name it.";
  $("steps").replaceChildren(el("ol", {},
    step("1. Mark a few notes", `${first} ${marked ? "" : `About ${ENOUGH} of each class are a good start.`}`, !marked, marked),
    step("2. Train", "Takes seconds, and needs no examples of anything else.", marked, false),
    step("3. Review", "Confirm or correct what was found with one key each, least certain first.", false, false),
    step("4. Discover", "Sounds that belong to no class are grouped; a group can become a class.", false, false)));
  if (marked) $("steps").append(el("p", {}, el("button", { class: "primary wide", type: "button", onclick: train }, "Train now ", el("kbd", {}, "T"))));
}
