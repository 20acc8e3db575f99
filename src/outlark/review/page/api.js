// Requests to the server; changes go one after the other, in the order in which they were made.

import { alertUser } from "./dom.js";

export async function request(method, path, body, options = {}) {
  const init = { method, headers: {}, ...options };
  if (body !== undefined) { init.body = JSON.stringify(body); init.headers["content-type"] = "application/json"; }
  let response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Error("outlark does not answer; see whether it is still running in its terminal");
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

let chain = Promise.resolve();
let waiting = 0;

/** Send a change after all changes before it; an error is shown, and `null` given. */
export function send(method, path, body) {
  waiting += 1;
  document.body.dataset.waiting = String(waiting);
  const next = chain.then(async () => {
    try {
      return await (await request(method, path, body)).json();
    } catch (error) {
      alertUser(error.message);
      return null;
    } finally {
      waiting -= 1;
      document.body.dataset.waiting = String(waiting);
    }
  });
  chain = next;
  return next;
}
