// Changes on their way to the project file. Each has a key and stays in the storage of the browser until the server has
// answered: over a reload, a crash, a server that was stopped, a full disk. They are sent one after the other, in the
// order in which they were made; the server stores each key once, however often it comes. Verdicts that pile up go
// together, so that fast keys do not wait for round trips.

import { mayPass, request } from "./api.js";
import { $, alertUser, el } from "./dom.js";
import { confirmed } from "./dialogs.js";
import { changed, on, state } from "./state.js";

/**
 * What a change looks like before it is stored, and what was there before: rows, ids of removed annotations, statuses.
 * @typedef {{annotations?: any[], removed?: number[], statuses?: Record<string, string>}} Effect
 * @typedef {{key: string, name: string, method: string, path: string, body: any, shows?: Effect, was?: Effect, place?: any, tried?: boolean}} Change
 */

const TOGETHER = 50, FIRST_MS = 1000, LONGEST_MS = 15000;
/** @type {Change[]} */ let waiting = [];  // oldest first
/** @type {Map<string, (outcome: any) => void>} */ const askers = new Map();
let whenStored = (change, outcome) => {};
let sending = false, why = "", pause = FIRST_MS, timer = 0, alone = 0, made = 0;

const prefix = () => `outlark change ${state.project.id} `;

/** Begin with what an earlier visit, or another tab, could not send. `stored` is told the outcome of each change, null if it was refused. */
export function startOutbox(stored) {
  whenStored = stored;
  const names = Object.keys(localStorage).filter((name) => name.startsWith(prefix())).sort();
  waiting = names.map((name) => ({ ...JSON.parse(localStorage.getItem(name)), name, tried: true }));
  on("connection", draw);
  window.addEventListener("online", tryAgain);
  window.addEventListener("beforeunload", (event) => { if (waiting.length) event.preventDefault(); });
  draw();
  sendAll();
}

/** Send a change after all changes before it; gives its outcome ({again: true} if it came to be known late), or null if it was refused. */
export function send(method, path, body, { shows, was, place } = {}) {
  const order = `${String(Date.now()).padStart(15, "0")}${String(made++).padStart(6, "0")}`;
  const key = Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
  const change = { key, name: `${prefix()}${order} ${key}`, method, path, body, shows, was, place };
  keep(change);
  waiting.push(change);
  draw();
  return new Promise((done) => { askers.set(key, done); sendAll(); });
}

function keep(change) {
  try { localStorage.setItem(change.name, JSON.stringify(change)); }
  catch { change.name = ""; }  // the storage is full or forbidden: the change waits in this tab alone
}
const forget = (change) => { waiting = waiting.filter((one) => one !== change); localStorage.removeItem(change.name); };

export const unsaved = () => waiting.length;
/** What changes that wait look like, in their order. */
export const unsavedEffects = () => waiting.map((change) => change.shows).filter(Boolean);

/** The last change, if it waits and can be taken back. */
export function lastUnsaved() {
  const undone = new Set();
  for (const change of [...waiting].reverse()) {
    if (change.body?.of) undone.add(change.body.of);
    else if (!undone.has(change.key)) return change.was ? change : null;
  }
  return null;
}

/** Take back a change that was never sent; false if it may have been. */
export function drop(change) {
  if (change.tried) return false;
  forget(change);
  draw();
  return true;
}

// ----------------------------------------------------------------- sending

const isVerdict = (change) => change.method === "POST" && change.path === "/api/reviews";

/** What is sent next: one change, or all verdicts at the head of the queue. */
function next() {
  let n = 0;
  if (alone > 0) alone -= 1;
  else while (n < waiting.length && n < TOGETHER && isVerdict(waiting[n])) n += 1;
  return waiting.slice(0, Math.max(1, n));
}

/** What another tab has sent or taken back meanwhile need not be sent here. */
function forgetSettled() {
  for (const change of [...waiting]) {
    if (change.name === "" || localStorage.getItem(change.name) !== null) continue;
    settle(change, { again: true });
  }
}

async function sendAll() {
  if (sending) return;
  sending = true;
  clearTimeout(timer);
  forgetSettled();
  while (waiting.length) {
    const together = next();
    for (const change of together) change.tried = true;
    try {
      const answers = await answered(together);
      pause = FIRST_MS;
      why = "";
      together.forEach((change, k) => settle(change, answers[k]));
    } catch (error) {
      if (mayPass(error)) { wait(error.message); break; }
      if (together.length > 1) alone = together.length;  // one of them is at fault: which?
      else { alertUser(`Not saved: ${error.message}`); settle(together[0], null); }
    }
  }
  sending = false;
}

/** Send again later, ever less often; people can ask for it at once. */
function wait(reason) {
  why = reason;
  timer = setTimeout(sendAll, pause);
  pause = Math.min(2 * pause, LONGEST_MS);
  draw();
}
export function tryAgain() { pause = FIRST_MS; sendAll(); }

function settle(change, outcome) {
  forget(change);
  draw();
  whenStored(change, outcome);
  askers.get(change.key)?.(outcome);
  askers.delete(change.key);
}

async function answered(together) {
  if (together.length === 1) {
    const [{ key, method, path, body }] = together;
    return [await (await request(method, path, body, { headers: { "idempotency-key": key } })).json()];
  }
  const verdicts = together.map((change) => ({ ...change.body, key: change.key }));
  const { outcomes } = await (await request("POST", "/api/reviews/batch", { verdicts })).json();
  for (const { error } of outcomes) if (error) alertUser(`Not saved: ${error}`);
  return outcomes.map((outcome) => (outcome.error ? null : outcome));
}

/** Once nothing waits any more; false if it cannot be sent now. */
export async function allSaved() {
  while (waiting.length) {
    if (state.trouble || why) return false;
    await new Promise((done) => setTimeout(done, 20));
  }
  return !state.trouble;
}

async function discard() {
  const n = waiting.length;
  if (!(await confirmed(`Throw away ${n} unsaved ${n === 1 ? "change" : "changes"}?`, "Throw away", "They were never stored; this cannot be undone."))) return;
  for (const change of [...waiting].reverse()) settle(change, null);
}

// ------------------------------------------------------------------ telling

function draw() {
  const n = waiting.length, trouble = state.trouble || (n && why), many = n === 1 ? "1 change is" : `${n} changes are`;
  document.body.dataset.waiting = String(n);
  document.body.dataset.connection = state.trouble ? "away" : "there";
  $("foot").classList.toggle("trouble", Boolean(trouble));
  document.title = `${n && trouble ? `(${n} not saved) ` : ""}outlark review`;
  if (!trouble) { $("saved").replaceChildren(n ? `Saving ${n}…` : "All changes are saved."); return; }
  const text = n ? `${many} not saved yet, but kept in this browser: ${trouble}.` : `${trouble}. All changes so far are saved.`;
  $("saved").replaceChildren(el("span", {}, text[0].toUpperCase() + text.slice(1)),
    el("button", { type: "button", onclick: tryNow }, "Try again"), n ? el("button", { type: "button", onclick: discard }, "Throw away…") : "");
}

function tryNow() {
  if (waiting.length) tryAgain();
  else request("GET", "/api/revision").catch(() => {});
}

/** Whether something that only the server can do has to wait for it; it is said if so. */
export function needsServer(what) {
  if (state.trouble) alertUser(`${what} is not possible now: ${state.trouble}.`);
  return Boolean(state.trouble);
}
