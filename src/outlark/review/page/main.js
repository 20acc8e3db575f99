// The page: starts everything, and draws when something has changed.

import { decide, newClass, train, turn } from "./actions.js";
import { request } from "./api.js";
import { $, alertUser, el, onResize, say, soon, tell } from "./dom.js";
import { showExport, showKeys } from "./dialogs.js";
import { openGallery } from "./gallery.js";
import { playCurrent, startKeys } from "./keys.js";
import { drawLanes, drawOverview, layOutLanes, renewOverview } from "./lanes.js";
import { keepUpToDate, loadProject, openRecording, reloadAll, stored, turnRun } from "./load.js";
import { allSaved, needsServer, startOutbox } from "./outbox.js";
import { startPanels } from "./panels.js";
import { keptPlace, restoreView, startPlace } from "./place.js";
import { drawClock, playPause, startPlayer } from "./player.js";
import { startPointer } from "./pointer.js";
import { loadQueue } from "./queue.js";
import { startReview } from "./review.js";
import { drawScale, drawScores } from "./scores.js";
import { drawHertz, drawRuler, drawSpectrogram } from "./spectrogram.js";
import { changed, on, state } from "./state.js";
import { startTheme } from "./theme.js";
import { startThresholds } from "./thresholds.js";
import { recolour } from "./tiles.js";
import { show, showAll, span, zoom } from "./view.js";

/** Milliseconds that the last frames took to draw. */
export const frames = [];

/** Draw everything, once a frame at most. */
const drawSoon = soon(() => {
  if (!state.recording || !state.project) return;
  const start = performance.now();
  for (const one of [drawSpectrogram, drawHertz, drawRuler, drawScores, drawScale, drawLanes, drawOverview, drawClock]) one();
  frames.push(performance.now() - start);
  if (frames.length > 2000) frames.shift();
});

function startControls() {
  const colours = () => { recolour($("palette").value, Number($("brightness").value), Number($("contrast").value)); drawSoon(); };
  for (const id of ["palette", "brightness", "contrast"]) $(id).addEventListener("input", colours);
  on("colours", colours); on("theme", colours); on("recording", colours);
  on("view", drawSoon);
  onResize(drawSoon);
  for (const name of ["found", "recording", "project", "theme"]) on(name, renewOverview);
  on("project", layOutLanes);
  window.addEventListener("resize", () => { if (state.project) layOutLanes(); });
  on("recording", topChoices);
  on("top", () => { $("top").value = String(state.top); });
  on("thresholds", decide);
  $("top").addEventListener("change", () => { state.top = Number($("top").value); drawSoon(); });
  $("recording").addEventListener("change", () => openRecording(Number($("recording").value)).catch((error) => { $("recording").value = String(state.recording.id); tell(error); }));
  $("undo").addEventListener("click", () => turn(true));
  $("redo").addEventListener("click", () => turn(false));
  $("train").addEventListener("click", train);
  $("export").addEventListener("click", showExport);
  $("help").addEventListener("click", showKeys);
  $("play").addEventListener("click", playPause);
  $("play-note").addEventListener("click", playCurrent);
  $("zoom-in").addEventListener("click", () => zoom(0.6));
  $("zoom-out").addEventListener("click", () => zoom(1 / 0.6));
  $("zoom-all").addEventListener("click", showAll);
  $("new-class").addEventListener("click", () => newClass());
  $("gallery-open").addEventListener("click", () => openGallery());
  $("job-cancel").addEventListener("click", () => request("DELETE", `/api/jobs/${$("job").dataset.id}`).catch((error) => alertUser(error.message)));
  $("job-new").addEventListener("click", () => turnRun().catch(tell));
  for (const id of ["import", "upload"]) $(id).addEventListener("change", async () => { await bring([...$(id).files]); $(id).value = ""; });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => { event.preventDefault(); bring([...event.dataTransfer.files]); });
  new ResizeObserver(() => { if (state.recording) show(state.view.t0, Math.min(span(), state.recording.n_samples / state.recording.sample_rate)); }).observe($("tracks"));
}

function topChoices() {
  const nyquist = state.recording.sample_rate / 2;
  const tops = [1000, 2000, 4000, 6000, 8000, 10000, 12000, 16000, 24000, 48000, 96000].filter((hz) => hz < nyquist * 0.95);
  $("top").replaceChildren(...[...tops, nyquist].map((hz) => el("option", { value: hz }, `to ${Number((hz / 1000).toFixed(1))} kHz`)));
  $("top").value = String(nyquist);
}

/** Take in files: recordings are added, all others are read as annotations, after the recordings that they may be about. */
async function bring(files) {
  if (!files.length || needsServer("Adding files")) return;
  if (!(await allSaved())) { alertUser("Files cannot be added yet: changes are not saved."); return; }
  const isSound = ({ name }) => state.project.sounds.some((suffix) => name.toLowerCase().endsWith(suffix));
  for (const file of files.filter(isSound)) await upload(file).catch((error) => alertUser(error.message));
  for (const file of files.filter((one) => !isSound(one))) await importTable(file).catch((error) => alertUser(error.message));
}

async function importTable(file) {
  const response = await request("POST", `/api/recordings/${state.recording.id}/import?name=${encodeURIComponent(file.name)}`, undefined, { body: file });
  const { added, remarks, refused } = await response.json();
  await reloadAll();
  say(`${added} annotations from ${file.name}${remarks.length ? `: ${remarks.join("; ")}` : ""}`);
  for (const text of refused) alertUser(`${file.name}: ${text}`);
}

async function upload(file) {
  say(`Adding ${file.name}…`);
  const response = await request("PUT", `/api/uploads/${encodeURIComponent(file.name)}`, undefined, { body: file });
  const { id } = await response.json();
  await loadProject();
  await openRecording(id);
  say(`${file.name} was added`);
}

/** The token of the address becomes a cookie, and leaves the address. */
async function swapToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("t");
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  await request("POST", "/api/token", { token });
}

async function start() {
  startPanels(); startReview(); startThresholds(); startControls(); startPlayer(); startKeys(); startPointer(); startTheme();
  try {
    await swapToken();
    const project = await loadProject(true);
    const place = keptPlace(), known = project.recordings.some((r) => r.id === place.recording);
    Object.assign(state, { current: place.current ?? null });
    Object.assign(state.queue, { order: place.order ?? "uncertain", of: place.of ?? "known" });
    startOutbox(stored);
    await openRecording(known ? place.recording : project.recordings[0].id);
    restoreView(place);
    changed("project");
    await loadQueue();
    startPlace();
    keepUpToDate();
    document.body.dataset.ready = "1";
  } catch (error) { alertUser(error.message); }
  changed("view");
}
on("trouble", () => { if (state.recording.error) { alertUser(state.recording.error); state.recording.error = null; } });
start();
