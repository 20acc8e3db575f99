// Where people are: the recording, what is in view, the cursor, the queue; kept over a reload, and for the next visit.

import { changed, on, state } from "./state.js";
import { show, span } from "./view.js";

const name = () => `outlark place ${state.project.id}`;
let timer = 0;

/** Keep the place from now on, for this tab and, if no other is kept later, for the next visit. */
export function startPlace() {
  const soon = () => { clearTimeout(timer); timer = setTimeout(keep, 200); };
  for (const what of ["view", "queue", "recording"]) on(what, soon);
  window.addEventListener("pagehide", keep);
}

function keep() {
  if (!state.recording) return;
  const { order, of } = state.queue, { view, top, playhead, current } = state;
  const text = JSON.stringify({ recording: state.recording.id, t0: view.t0, span: span(), playhead, top, current, order, of });
  try { sessionStorage.setItem(name(), text); localStorage.setItem(name(), text); } catch { /* the next visit begins at the start */ }
}

/** The place of the last visit; a blank one for the first. */
export function keptPlace() {
  const text = sessionStorage.getItem(name()) ?? localStorage.getItem(name());
  return text ? JSON.parse(text) : {};
}

export function restoreView({ recording, t0, span: seconds, playhead, top }) {
  if (state.recording.id !== recording) return;
  state.playhead = playhead;
  if (top <= state.recording.sample_rate / 2) state.top = top;
  show(t0, seconds);
  changed("top", "view");
}
