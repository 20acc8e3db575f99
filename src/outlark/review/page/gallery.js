// Unknown sounds that are alike, as a wall of thumbnails that can become a class.

import { get } from "./api.js";
import { $, alertUser, el, say } from "./dom.js";
import { needsServer, send } from "./outbox.js";
import { playNote, stopNote } from "./player.js";
import { thumbnail } from "./review.js";
import { state } from "./state.js";

const CENTRAL = 5;
let members = [], aside = new Set(), cluster = null;

export async function openGallery(id = null) {
  const { clusters } = state.project;
  if (!clusters.length) { say("There are no groups of unknown sounds yet; train first"); return; }
  cluster = clusters.find((c) => c.id === id) ?? clusters[0];
  if (needsServer("The gallery")) return;
  try { members = await get(`/api/clusters/${cluster.id}`); } catch (error) { alertUser(error.message); return; }
  aside = new Set();
  draw();
  if (!$("gallery").open) $("gallery").showModal();
  $("gallery").querySelector(".grid button")?.focus();
}

const rate = (m) => state.project.recordings.find((r) => r.id === m.recording_id).sample_rate;

function draw() {
  const pick = state.project.clusters.map((c) =>
    el("button", { type: "button", "aria-pressed": String(c.id === cluster.id), onclick: () => openGallery(c.id) }, `Unknown ${c.name} (${c.size})`));
  const cards = members.map(card);
  const name = el("input", { type: "text", id: "promote-name", maxlength: 60, autocomplete: "off", placeholder: "name of the new class" });
  const k = el("input", { type: "number", id: "promote-k", min: 1, max: 60, value: Math.min(CENTRAL, members.length) });
  k.addEventListener("input", mark);
  const form = el("form", { class: "name" }, el("label", { for: "promote-name" }, "Make it a class:"), name,
    el("label", { for: "promote-k" }, "from the"), k, el("span", {}, "most typical sounds"),
    el("button", { class: "primary" }, "Make class"), el("span", { class: "push" }), el("button", { type: "button", onclick: () => $("gallery").close() }, "Close"));
  form.addEventListener("submit", (event) => { event.preventDefault(); promote(name.value, Number(k.value)); });
  $("gallery").replaceChildren(el("h2", {}, "Unknown sounds that are alike"),
    el("p", { class: "empty" }, "Arrow keys move, Space plays, X sets a sound aside, Enter goes to the name. The framed sounds, which are the most typical, become examples; the others come up in the next round of review."),
    el("div", { class: "pick" }, ...pick), el("div", { class: "grid" }, ...cards), form);
  mark();
}

/** Pictures are fetched when they come into sight: a group may have thousands. */
const drawers = new WeakMap();
const inSight = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) if (isIntersecting) { inSight.unobserve(target); drawers.get(target)(); }
});

function card(m) {
  const canvas = el("canvas", {});
  inSight.observe(canvas);
  drawers.set(canvas, () => thumbnail(canvas, m.recording_id, m.t0, m.t1, 120));
  const r = rate(m), name = state.project.recordings.find((one) => one.id === m.recording_id).short;
  const text = `${((1000 * (m.t1 - m.t0)) / r).toFixed(0)} ms · ${(m.t0 / r).toFixed(1)} s`;
  const button = el("button", { type: "button", "aria-pressed": "true", "data-id": m.id, "aria-label": `Sound at ${(m.t0 / r).toFixed(1)} s of ${name}` },
    canvas, el("span", {}, text));
  button.addEventListener("click", () => playNote(m.recording_id, m.t0 / r, m.t1 / r));
  button.addEventListener("keydown", (event) => key(event, button, m));
  return button;
}

function key(event, button, m) {
  const all = [...$("gallery").querySelectorAll(".grid button")], at = all.indexOf(button);
  const perRow = Math.max(1, all.filter((b) => b.offsetTop === all[0].offsetTop).length);
  const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perRow, ArrowUp: -perRow };
  if (event.key in moves) { all[at + moves[event.key]]?.focus(); event.preventDefault(); }
  else if (event.key.toLowerCase() === "x") { if (!aside.delete(m.id)) aside.add(m.id); mark(); event.preventDefault(); }
  else if (event.key === "Enter") { $("promote-name").focus(); event.preventDefault(); }
}

/** Frame those that would become examples. */
function mark() {
  const kept = members.filter((m) => !aside.has(m.id)), central = new Set(kept.slice(0, Number($("promote-k").value)).map((m) => m.id));
  for (const button of $("gallery").querySelectorAll(".grid button")) {
    const id = Number(button.dataset.id);
    button.setAttribute("aria-pressed", String(!aside.has(id)));
    button.classList.toggle("central", central.has(id));
  }
}

async function promote(name, k) {
  if (!name.trim()) { $("promote-name").focus(); return; }
  if (needsServer("A new class")) return;
  stopNote();
  const keep = members.filter((m) => !aside.has(m.id)).slice(0, k).map((m) => m.id);
  const outcome = await send("POST", `/api/clusters/${cluster.id}/promote`, { name, keep, k });
  if (!outcome) return;
  $("gallery").close();
  say(`${name} is a class now; train to find more of it`);
}
