// Getting what is shown from the server, and keeping it up to date.

import { get } from "./api.js";
import { $, alertUser, el, say, tell } from "./dom.js";
import { unsaved, unsavedEffects } from "./outbox.js";
import { loadQueue, recount, setQueued } from "./queue.js";
import { clearScores } from "./scores.js";
import { changed, duration, ofRun, state } from "./state.js";
import { clearTiles } from "./tiles.js";
import { show, showAll } from "./view.js";

const POLL_MS = 300, IDLE_MS = 2000;
let revision = "";
let lastJob = 0;
let opening = 0, changes = 0;
const told = new Set();
/** @type {Map<number, any>} */ const known = new Map();  // what was found in recordings that were open before

/** The classes, the run and its thresholds. The revision is adopted only if everything else is loaded as well: another tab may have changed something. */
export async function loadProject(all = false) {
  const asked = state.run, project = await get(ofRun("/api/project"));
  if (state.run !== asked) return loadProject(all);  // another one was asked for meanwhile
  if (!project.run?.making) state.run = null;  // it is complete, or was cancelled
  state.project = project;
  if (all) revision = project.revision;
  const { run } = project;
  const ratios = run ? run.class_ids.map((id) => run.wanted[id] / run.priors[id]) : [];
  state.factor = ratios.length ? Math.exp(ratios.reduce((sum, r) => sum + Math.log(r || 1), 0) / ratios.length) : 1;
  $("title").textContent = project.title;
  for (const { name, message } of project.problems) if (!told.has(name)) { told.add(name); alertUser(`${name}: ${message}`); }
  const options = project.recordings.map((r) => el("option", { value: r.id }, r.short + (r.missing ? " (missing)" : "")));
  $("recording").replaceChildren(...options);
  if (state.recording) $("recording").value = String(state.recording.id);
  changed("project", "view");
  watch(project.job);
  return project;
}

/** Open a recording. */
export async function openRecording(id) {
  const mine = ++opening;
  if (state.recording?.id !== id) {
    const before = known.get(id);
    const [details, found] = await Promise.all([before?.details ?? get(`/api/recordings/${id}`), before?.found ?? fetchFound(id)]);
    known.set(id, { details: details.whole ? details : null, found });
    if (mine !== opening) return false;  // another one was asked for meanwhile
    Object.assign(state, { recording: details, selection: null, annotation: null, playhead: 0, markFrom: null });
    state.top = details.sample_rate / 2;
    $("recording").value = String(id);
    if (details.missing) alertUser(details.missing);
    for (const remark of details.remarks) say(remark);
    Object.assign(state, found);
    changed("recording", "found");
    if (duration() > 20) show(0, 12); else showAll();
    if (!details.whole) waitForPyramid(id);
  }
  return true;
}

async function waitForPyramid(id) {
  const building = $("building");
  while (state.recording.id === id && !state.recording.whole) {
    building.hidden = false;
    building.textContent = `Drawing the spectrogram… ${Math.round(100 * state.recording.built)} %`;
    await new Promise((done) => setTimeout(done, POLL_MS));
    const now = await get(`/api/recordings/${id}`).catch(() => null);
    if (!now || state.recording.id !== id) break;
    Object.assign(state.recording, { whole: now.whole, built: now.built, low: now.low, high: now.high, error: now.error });
    if (now.error) { alertUser(now.error); break; }
    changed("colours", "view");
  }
  building.hidden = true;
  if (state.recording.id === id) { clearTiles(); changed("colours", "view"); }
}

/** Annotations, detections and scores of the open recording, anew. */
export async function loadFound() {
  const { id } = state.recording;
  known.clear();
  const found = await fetchFound(id);
  if (state.recording.id !== id) return;
  known.set(id, { details: state.recording.whole ? state.recording : null, found });
  Object.assign(state, found);
  changed("found", "view");
}

const byId = (rows) => new Map(rows.map((row) => [row.id, row]));

async function fetchFound(id) {
  const { run } = state.project, before = changes;
  const [annotations, detections, candidates, levels] = await Promise.all([
    get(`/api/recordings/${id}/annotations`),
    get(ofRun(`/api/recordings/${id}/detections`)),
    get(ofRun(`/api/recordings/${id}/candidates`)),
    run ? get(`/api/recordings/${id}/score_levels/${run.id}`) : { levels: 0 },
  ]);
  if (before !== changes) return fetchFound(id);  // something was stored meanwhile: the answers may be older
  const found = { detections, candidates, scoreLevels: { ...levels, run: run?.id }, annotations: byId(annotations), detectionOf: byId(detections) };
  for (const effect of unsavedEffects()) putInto(found, id, effect);
  return found;
}

export async function reloadAll() {
  const before = state.queue.items[state.queue.at];
  await loadProject(true);
  clearScores();
  await loadFound();
  await loadQueue();
  if (before && state.queue.at < 0) stayAt(before);
  changed("calibration");
}

/** The note under review in results that are new: review goes on where it was. */
function stayAt(before) {
  state.queue.at = state.queue.items.findIndex((item) => item.recording_id === before.recording_id && item.t0 < before.t1 && item.t1 > before.t0);
  state.current = state.queue.items[state.queue.at]?.id ?? null;
  changed("queue");
}

/** Put what a change looks like into what was found in a recording. */
function putInto({ annotations: rows, detectionOf }, recording, { annotations = [], removed = [], statuses = {} }) {
  for (const row of annotations) if (row.recording_id === recording) rows.set(row.id, row);
  for (const id of removed) rows.delete(id);
  for (const [id, status] of Object.entries(statuses)) { const row = detectionOf.get(Number(id)); if (row) row.status = status; }
}

/** Show what a change looks like. */
export function put(...effects) {
  for (const effect of effects) {
    for (const [recording, { found }] of known) putInto(found, recording, effect);
    setQueued(effect.statuses ?? {});
  }
  if (state.annotation !== null && !state.annotations.has(state.annotation)) state.annotation = null;
  changed("found", "queue", "view");
}

/** Show what a change has come to: null if it was refused, and what was shown of it is not true. */
export function stored(change, outcome) {
  changes += 1;
  const sketched = (change.shows?.annotations ?? []).map((row) => row.id).filter((id) => id < 0);
  if (!outcome || outcome.again) {
    put({ removed: sketched }, (!outcome && change.was) || {}, ...unsavedEffects());
    unheard ||= Boolean(outcome);
    refreshSoon(true);
    return;
  }
  put({ removed: sketched }, outcome, ...unsavedEffects());
  refreshSoon(outcome.run || outcome.before !== revision || outcome.classes.length > 0, Object.keys(outcome.statuses).some((id) => !state.queue.itemOf.has(Number(id))));
  revision = outcome.revision;
  if (outcome.thresholds) changed("thresholds");
}

let timer = 0, everything = false, counts = false, unheard = false;
/** Load the project soon, once for many changes: all of it if another tab has changed something, too. */
function refreshSoon(all = false, count = false) {
  everything ||= all;
  counts ||= count;
  clearTimeout(timer);
  timer = setTimeout(() => {
    const load = everything ? reloadAll : loadProject, also = counts && !everything ? recount : () => {};
    if (everything) revision = "";  // until all of it is there
    everything = counts = false;
    load().then(also).then(() => {
      if (unheard && state.project.run?.undecided) changed("thresholds");  // moved by a change whose answer was lost
      unheard = false;
    }).catch(tell);
  }, 150);
}

// ------------------------------------------------------------------- jobs

export function watch(job) {
  if (!job || job.state !== "running" || lastJob === job.id) { if (!job || job.state !== "running") $("job").hidden = true; return; }
  lastJob = job.id;
  poll(job);
}

async function poll(job) {
  $("job").hidden = false;
  $("job").dataset.id = job.id;
  let shown = 0;
  while (job.state === "running") {
    drawJob(job);
    await new Promise((done) => setTimeout(done, POLL_MS));
    job = await get(`/api/jobs/${job.id}`).catch((error) => (error.status === 404 ? { ...job, state: "failed", message: "outlark was stopped before this was done; start it again" } : job));
    if (job.searched > shown && isShown(job) && !unsaved()) { shown = job.searched; await reloadAll().catch(tell); }
  }
  lastJob = 0;
  $("job").hidden = true;
  state.run = null;
  if (job.state === "failed") alertUser(`${job.kind}: ${job.message}`);
  say(`${job.kind}: ${job.state}`);
  await reloadAll();
  document.body.dataset.jobs = String(job.id);
  changed("job");
}

/** Whether the results of a job are those that are shown: of the first model, or if they were asked for. */
const isShown = (job) => job.run !== null && (!state.project.run || state.project.run.id === job.run);

function drawJob(job) {
  $("job-bar").value = job.progress;
  const button = $("job-new"), making = Boolean(state.project.run?.making);
  const text = making ? `model ${job.run} so far: ${job.searched} of ${job.recordings} recordings` : `${job.kind}: ${job.message}`;
  $("job-text").textContent = $("job-text").title = text;
  button.hidden = !making && (isShown(job) || !job.searched);
  button.textContent = making ? "Back" : `See ${job.searched} of ${job.recordings} new`;
  button.dataset.run = making ? "" : String(job.run);
  changed("job");
}

/** Look at the new results so far, or at those that they are going to replace. */
export async function turnRun() {
  state.run = Number($("job-new").dataset.run) || null;
  await reloadAll();
}

/** Another tab may have changed something. */
export function keepUpToDate() {
  setInterval(async () => {
    if (document.hidden || unsaved()) return;
    const now = await get("/api/revision").catch(() => null);
    if (!now || unsaved()) return;
    if (now.job?.state === "running") watch(now.job);
    else if (now.revision !== revision || now.grouping !== state.project.grouping) await reloadAll().catch(tell);
  }, IDLE_MS);
}
