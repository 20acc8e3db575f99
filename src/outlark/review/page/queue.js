// The queue of what is to be reviewed, in pages: those after the first are fetched when they are needed.

import { get } from "./api.js";
import { say } from "./dom.js";
import { unsaved, unsavedEffects } from "./outbox.js";
import { changed, ofRun, state } from "./state.js";

const NEAR = 150;  // items before the end of what is there, from which on the next page is fetched
let version = 0;
/** @type {Promise<boolean> | null} */ let coming = null;

const address = () => ofRun(`/api/queue?order=${state.queue.order}&of=${state.queue.of}`);

/** The queue anew, as far as the note under review and a page beyond. */
export async function loadQueue() {
  const mine = ++version;
  const found = await get(`${address()}${state.current === null ? "" : `&through=${state.current}`}`);
  if (mine !== version) return;
  Object.assign(state.queue, found, { itemOf: new Map(found.items.map((item) => [item.id, item])) });
  state.queue.at = found.items.findIndex((item) => item.id === state.current);
  for (const { statuses } of unsavedEffects()) setQueued(statuses ?? {});
  changed("queue");
}

/** The next page; false if there is none, or it did not come. */
export function loadMore() {
  if (!state.queue.more) return Promise.resolve(false);
  coming ??= fetchMore().finally(() => { coming = null; });
  return coming;
}

async function fetchMore() {
  const { items, itemOf } = state.queue, mine = version;
  try {
    const found = await get(`${address()}&after=${items.at(-1).id}`);
    if (mine !== version) return true;
    for (const item of found.items) { items.push(item); itemOf.set(item.id, item); }
    Object.assign(state.queue, { total: found.total, more: found.more });
    for (const { statuses } of unsavedEffects()) setQueued(statuses ?? {});
    changed("queue");
    return true;
  } catch (error) {
    say(`The rest of the queue is not here yet: ${error.message}`);
    return false;
  }
}

/** Fetch the next page before it is needed. */
export function lookAhead() { if (state.queue.at > state.queue.items.length - NEAR) loadMore(); }

/** Where the next note is that nobody has judged, from the current one on; -1 if all are, undefined if it is not known. */
export async function nextPending() {
  const pending = (item) => item.status === "pending";
  for (;;) {
    const { items, at } = state.queue, next = items.findIndex((item, k) => k > at && pending(item));
    if (next >= 0) return next;
    if (!state.queue.more) return items.findIndex(pending);
    if (!(await loadMore())) return undefined;
  }
}

export function setQueued(statuses) {
  for (const [id, status] of Object.entries(statuses)) {
    const item = state.queue.itemOf.get(Number(id));
    if (!item) continue;
    state.queue.reviewed += Number(status !== "pending") - Number(item.status !== "pending");
    item.status = status;
  }
}

/** How many are reviewed by now: verdicts on what is not listed here have to be counted by the server. */
export async function recount() {
  const mine = version, { total, reviewed } = await get(`${address()}&limit=1`);
  if (mine !== version || unsaved()) return;
  Object.assign(state.queue, { total, reviewed });
  changed("queue");
}
