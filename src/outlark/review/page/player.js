// Sound: running playback by one audio element, single notes to the sample by Web Audio.

import { bytes } from "./api.js";
import { $, alertUser, tell, timeText } from "./dom.js";
import { changed, duration, state } from "./state.js";
import { dayTime } from "./spectrogram.js";
import { cursorInView, show, span, width, x } from "./view.js";

const AROUND_S = 0.15;
/** @type {AudioContext | null} */ let context = null;
/** @type {AudioBufferSourceNode | null} */ let playing = null;
let asked = 0;
export let looping = false;
export const speed = () => Number($("speed").value);

export function startPlayer() {
  const audio = $("audio");
  audio.preservesPitch = false;
  audio.addEventListener("error", () => { if (audio.src && audio.error) alertUser("This recording cannot be played; see whether its file is still there."); });
  for (const name of ["play", "pause", "ended"]) audio.addEventListener(name, () => { $("play").firstChild.textContent = audio.paused ? "Play " : "Pause "; follow(); });
  $("speed").addEventListener("change", () => { audio.playbackRate = speed(); });
}

export function playPause() {
  const audio = $("audio");
  if (!audio.paused) { audio.pause(); return; }
  stopNote();
  cursorInView();
  const source = `/api/recordings/${state.recording.id}/audio?v=${state.recording.version}`;
  if (!audio.src.endsWith(source)) audio.src = source;
  audio.currentTime = state.playhead >= duration() - 0.01 ? 0 : state.playhead;
  audio.playbackRate = speed();
  audio.play().catch(() => {});
}

function follow() {
  const audio = $("audio");
  if (audio.paused) return;
  const seen = x(state.playhead) >= 0 && x(state.playhead) <= width();  // else people look at something else meanwhile
  state.playhead = audio.currentTime;
  const at = x(state.playhead);
  if (seen && (at > width() * 0.98 || at < 0)) show(state.playhead - 0.05 * span(), span());
  changed("playhead", "view");
  requestAnimationFrame(follow);
}

export function seek(t) {
  state.playhead = Math.min(Math.max(0, t), duration());
  if (!$("audio").paused) $("audio").currentTime = state.playhead;
  changed("playhead", "view");
}

export function stopNote() { asked += 1; playing?.stop(); playing = null; }

/** Play a note with a little around it. */
export async function playNote(recording, t0, t1) {
  $("audio").pause();
  stopNote();
  const mine = asked;
  const from = Math.max(0, t0 - AROUND_S), to = t1 + AROUND_S;
  try {
    context ??= new AudioContext();
    const response = await bytes(`/api/recordings/${recording}/clip?t0=${from.toFixed(4)}&t1=${to.toFixed(4)}`);
    const buffer = await context.decodeAudioData(await response.arrayBuffer());
    if (mine !== asked) return;
    playing = context.createBufferSource();
    playing.buffer = buffer;
    playing.playbackRate.value = speed();
    playing.loop = looping;
    playing.connect(context.destination);
    playing.start();
    document.body.dataset.played = `${from.toFixed(3)}-${to.toFixed(3)}`;
  } catch (error) {
    if (mine === asked) tell(error);
  }
}
export function toggleLoop() { looping = !looping; if (!looping) stopNote(); return looping; }

export function drawClock() {
  const time = timeText(state.playhead);
  $("clock").textContent = state.recording.began ? `${time} · ${dayTime(state.playhead)}` : time;
}
