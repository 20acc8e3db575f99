// What the page knows, and who wants to hear of changes.

export const state = {
  /** @type {any} */ project: null,
  /** @type {number | null} */ run: null,      // the run that is looked at, if it is not the one that the project shows
  /** @type {any} */ recording: null,          // details of the recording that is open
  /** @type {Map<number, any>} */ annotations: new Map(),
  /** @type {any[]} */ detections: [],         // by time
  /** @type {Map<number, any>} */ detectionOf: new Map(),
  /** @type {number[][]} */ candidates: [],
  /** @type {any} */ scoreLevels: { levels: 0 },
  view: { t0: 0, spp: 0.01 },                  // seconds at the left edge, seconds per CSS pixel
  top: 0,                                      // highest frequency shown, Hz
  /** @type {{t0: number, t1: number, low?: number, high?: number} | null} */ selection: null,
  /** @type {number | null} */ annotation: null, // selected annotation
  /** @type {number | null} */ current: null,    // detection under review
  queue: { items: [], itemOf: new Map(), total: 0, reviewed: 0, more: false, order: "uncertain", of: "known", at: -1 },
  /** @type {string | null} */ trouble: null,    // why the server does not answer
  playhead: 0,
  /** @type {number | null} */ markFrom: null,
  factor: 1,                                   // threshold relative to training
  /** @type {number | null} */ dragging: null,   // the same while it is being dragged
};

const listeners = new Map();

/** Call a function whenever something of this name has changed. */
export function on(name, listener) {
  if (!listeners.has(name)) listeners.set(name, []);
  listeners.get(name).push(listener);
}

export function changed(...names) {
  for (const name of names) for (const listener of listeners.get(name) ?? []) listener();
}

/** Seconds of a sample. */
export const seconds = (sample) => sample / state.recording.sample_rate;
export const samples = (time) => Math.round(time * state.recording.sample_rate);
export const duration = () => state.recording.n_samples / state.recording.sample_rate;
/** A request for results: those of the run that is looked at. */
export const ofRun = (path) => (state.run === null ? path : `${path}${path.includes("?") ? "&" : "?"}run=${state.run}`);
export const classOf = (id) => state.project.classes.find((c) => c.id === id) ?? null;
export const keyOf = (id) => state.project.classes.findIndex((c) => c.id === id) + 1;
export const priorOf = (id) => state.project.run?.priors[id] || 1;
