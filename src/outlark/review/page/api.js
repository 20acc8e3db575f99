// Requests to the server, and whether it answers.

import { changed, state } from "./state.js";

/** A request that came to nothing; status 0: there was no answer. */
export class Failure extends Error {
  constructor(message, status) { super(message); this.status = status; }
}

/** Answers that say nothing of the request itself: no server, a full disk, no token, another project. */
export const mayPass = ({ status }) => status === 0 || status >= 500 || [401, 403, 408, 421, 429].includes(status);
/** Those of them after which no other request would be answered. */
const CLOSED = [0, 401, 403, 421];

let asked = 0, unanswered = 0;  // requests so far, and the last one that was sent before the server was missed

function heard(trouble) {
  if (state.trouble === trouble) return;
  state.trouble = trouble;
  changed("connection");
}

export async function request(method, path, body, options = {}) {
  const init = { method, ...options, headers: { ...options.headers } };
  if (state.project) init.headers["x-outlark-project"] = state.project.id;
  if (body !== undefined) { init.body = JSON.stringify(body); init.headers["content-type"] = "application/json"; }
  const mine = ++asked;
  let response;
  try {
    response = await fetch(path, init);
  } catch {
    unanswered = asked;
    heard("outlark does not answer; check that it is still running in its terminal");
    throw new Failure(state.trouble, 0);
  }
  const failure = response.ok ? null : new Failure(await reason(response), response.status);
  // what was asked before the server was missed may be answered late, and does not show that it is back
  if (mine > unanswered) heard(failure && CLOSED.includes(failure.status) ? failure.message : null);
  if (failure) throw failure;
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
export const bytes = async (path) => request("GET", path);
