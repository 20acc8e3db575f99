// Requests to the server. Changes are sent one after the other, in the order in which they were made; each is
// acknowledged. Verdicts that pile up while one is on its way go together, so that fast keys do not wait for round trips.

import { $, alertUser } from "./dom.js";

const TOGETHER = 50;

export async function request(method, path, body, options = {}) {
  const init = { method, headers: {}, ...options };
  if (body !== undefined) { init.body = JSON.stringify(body); init.headers["content-type"] = "application/json"; }
  let response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Error("outlark does not answer; check that it is still running in its terminal");
  }
  if (!response.ok) throw new Error(await reason(response));
  return response;
}

async function reason(response) {
  try {
    const { detail } = await response.json();
    if (typeof detail === "string") return detail;
    return detail.map((one) => `${one.loc.slice(1).join(" ")}: ${one.msg}`).join("; ");
  } catch {
    return `the server answered ${response.status}`;
  }
}

export const get = async (path) => (await request("GET", path)).json();
export const bytes = async (path, signal) => request("GET", path, undefined, { signal });

/** @type {{method: string, path: string, body: any, done: (answer: any) => void}[]} */
const queue = [];
let waiting = 0, sending = false;

/** Send a change after all changes before it; an error is shown, and `null` given. */
export function send(method, path, body) {
  count(1);
  return new Promise((done) => { queue.push({ method, path, body, done }); if (!sending) sendAll(); });
}

/** Send a verdict, like `send`. */
export const sendVerdict = (body) => send("POST", "/api/reviews", body);

export const unsaved = () => waiting;

function count(by) {
  waiting += by;
  document.body.dataset.waiting = String(waiting);
  $("saved").textContent = waiting ? `Saving ${waiting}…` : "All changes are saved.";
}

const isVerdict = (change) => change.method === "POST" && change.path === "/api/reviews";

/** What is sent next: one change, or all verdicts at the head of the queue. */
function next() {
  let n = 0;
  while (n < queue.length && n < TOGETHER && isVerdict(queue[n])) n += 1;
  return queue.splice(0, Math.max(1, n));
}

async function sendAll() {
  sending = true;
  while (queue.length) {
    const together = next();
    const answers = await answered(together);
    count(-together.length);
    together.forEach((change, k) => change.done(answers[k]));
  }
  sending = false;
}

async function answered(together) {
  try {
    if (together.length === 1) {
      const [{ method, path, body }] = together;
      return [await (await request(method, path, body)).json()];
    }
    const response = await request("POST", "/api/reviews/batch", { verdicts: together.map((change) => change.body) });
    const { outcomes } = await response.json();
    for (const { error } of outcomes) if (error) alertUser(error);
    return outcomes.map((outcome) => (outcome.error ? null : outcome));
  } catch (error) {
    alertUser(together.length > 1 ? `${together.length} verdicts were not saved: ${error.message}` : error.message);
    return together.map(() => null);
  }
}
