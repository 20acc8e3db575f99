// The queue, and the card of the note under review with the reason for its decision.

import { currentItem, go, goNext, judge } from "./actions.js";
import { bytes, get } from "./api.js";
import { $, colour, el, soon, tell, timeText } from "./dom.js";
import { unsaved } from "./outbox.js";
import { playNote } from "./player.js";
import { loadQueue } from "./queue.js";
import { classOf, on, state } from "./state.js";
import { chip, classColour, className, keyText } from "./theme.js";
import { paint } from "./tiles.js";

const ROWS = 60, STEP = 20, PAUSE_MS = 100;
const SIGNS = { pending: "", confirmed: "✓", rejected: "✗", relabelled: "→", unsure: "?" };
const WORDS = { pending: "not reviewed", confirmed: "confirmed", rejected: "rejected", relabelled: "relabelled", unsure: "cannot tell" };

export function startReview() {
  const drawSoon = soon(draw);
  on("queue", drawSoon);
  on("project", drawChoices);
  on("project", drawSoon);
  on("connection", () => { if (!state.trouble) { delete $("card").dataset.id; drawSoon(); } });  // its pictures may not have come
  for (const name of ["of", "order"]) $(`queue-${name}`).addEventListener("change", () => choose({ [name]: $(`queue-${name}`).value }));
}

/** Another queue, from its beginning; the old one if it does not come. */
async function choose(wanted) {
  const { of, order } = state.queue, { current } = state;
  Object.assign(state.queue, wanted);
  state.current = null;
  try { await loadQueue(); } catch (error) { Object.assign(state.queue, { of, order }); state.current = current; drawChoices(); tell(error); }
}

function drawChoices() {
  if (!state.project?.run) return;
  const options = [["known", "all notes found"], ...state.project.classes.filter((c) => c.in_model).map((c) => [String(c.id), c.name]), ["unknown", "unknown sounds (missed notes?)"]];
  $("queue-of").replaceChildren(...options.map(([value, text]) => el("option", { value }, text)));
  if (!options.some(([value]) => value === state.queue.of)) choose({ of: "known" });
  $("queue-of").value = state.queue.of;
  $("queue-order").value = state.queue.order;
}

function draw() {
  if (!state.project?.run) return;
  const { total, reviewed, order, of } = state.queue;
  $("queue-count").replaceChildren(`${reviewed} of ${total} reviewed`, estimate(order, of), total && reviewed >= total ? ` · ${atEnd()}` : "");
  drawCard();
  drawList();
}

const atEnd = () => (unsaved() ? "Everything in this queue is judged, but not saved yet." : "Everything in this queue is reviewed.");

/** Only verdicts in random order say how good the model is. */
function estimate(order, of) {
  const { precision, missed } = state.project;
  if (of === "unknown" && missed) return ` · ${missed.missed} of ${missed.n} random unknown sounds were notes that were missed`;
  const all = Object.entries(precision).filter(([id]) => of === "known" || of === id).map(([, p]) => p);
  const n = all.reduce((sum, p) => sum + p.n, 0), right = all.reduce((sum, p) => sum + p.right, 0);
  if (n) return ` · precision ${Math.round((100 * right) / n)} % from ${n} in random order`;
  return order === "random" ? " · verdicts in this order estimate the precision" : "";
}

/** What the list looks like besides verdicts; while it stays, only rows that have changed are drawn anew. */
let drawn = "";
const rows = new Map();

function drawList() {
  const { items, at } = state.queue;
  const first = Math.max(0, Math.min(Math.floor(at / STEP) * STEP - STEP, items.length - ROWS));
  const shown = items.slice(first, first + ROWS);
  const looks = JSON.stringify([document.documentElement.dataset.theme, state.project.classes.map((c) => [c.id, c.name, c.colour]), shown.map((item) => item.id)]);
  if (looks !== drawn) {
    drawn = looks;
    rows.clear();
    shown.forEach((item, k) => rows.set(item.id, listRow(item, first + k)));
    $("queue").replaceChildren(...rows.values());
  }
  for (const item of shown) updateRow(rows.get(item.id), item, item.id === state.current);
}

function listRow(item, place) {
  const where = state.project.recordings.length > 1 ? `${shortName(item.recording_id)} ` : "";
  return el("li", { "data-id": item.id, onclick: () => go(place) }, chip(item.class_id), el("span", {}, className(item.class_id)),
    el("span", { role: "img", class: "sign" }), el("span", { class: "when" }, `${where}${timeText(item.t0 / rateOf(item.recording_id), 1)}`));
}

function updateRow(row, item, current) {
  if (row.dataset.status !== item.status) {
    row.dataset.status = item.status;
    const sign = row.querySelector(".sign");
    sign.setAttribute("aria-label", WORDS[item.status]);
    sign.textContent = SIGNS[item.status];
  }
  if (current === row.hasAttribute("aria-current")) return;
  if (!current) { row.removeAttribute("aria-current"); return; }
  row.setAttribute("aria-current", "true");
  const list = $("queue"), top = row.offsetTop - list.offsetTop;  // the list alone is scrolled, not what is above it
  if (top < list.scrollTop || top + row.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top - list.clientHeight / 2;
}

const shortName = (id) => { const r = state.project.recordings.find((one) => one.id === id); return r ? `…${r.short.slice(-6)}` : ""; };
function rateOf(id) {
  if (state.recording?.id === id) return state.recording.sample_rate;
  const r = state.project.recordings.find((one) => one.id === id);
  return r?.sample_rate ?? state.recording.sample_rate;
}

function drawCard() {
  const card = $("card"), item = currentItem();
  if (!item) {
    delete card.dataset.id;
    const { total, reviewed } = state.queue;
    card.replaceChildren(reviewed < total
      ? el("p", {}, el("button", { class: "primary wide", type: "button", onclick: goNext }, "Start reviewing ", el("kbd", {}, "G")))
      : el("p", {}, total ? atEnd() : "Nothing was found. Lower the threshold, or mark more examples."));
    return;
  }
  if (card.dataset.id === String(item.id) && card.dataset.status === item.status && card.dataset.theme === document.documentElement.dataset.theme) return;
  Object.assign(card.dataset, { id: item.id, status: item.status, theme: document.documentElement.dataset.theme });
  const canvas = el("canvas", { role: "img", "aria-label": "Spectrogram of the note" });
  const alike = el("div", { class: "alike" });
  setTimeout(() => { if (card.contains(canvas)) { thumbnail(canvas, item.recording_id, item.t0, item.t1); showAlike(alike, item); } }, PAUSE_MS);
  const play = () => playNote(item.recording_id, item.t0 / rateOf(item.recording_id), item.t1 / rateOf(item.recording_id));
  card.replaceChildren(
    el("h3", {}, chip(item.class_id), className(item.class_id), el("span", { class: "quiet" }, item.verdict === "ambiguous" ? "ambiguous" : "")),
    canvas, bars(item),
    el("p", { class: "why" }, reason(item)), alike,
    el("p", { class: "status" }, `${SIGNS[item.status]} ${WORDS[item.status]}`),
    el("div", { class: "verdicts" },
      button("Y", "Right", () => judge("confirm")), button("N", "Not this", () => judge("reject")),
      ...state.project.classes.filter((c) => c.id !== item.class_id).slice(0, 9).map((c) => button(keyText(c.id), c.name, () => judge("relabel", c.id), chip(c.id))),
      button("U", "Unknown", () => judge("unknown")), button("S", "Cannot tell", () => judge("unsure")), button("P", "Play", play)));
}

const button = (key, text, action, sign = null) => el("button", { type: "button", title: text, onclick: action }, el("kbd", {}, key), sign, el("span", {}, text));

/** Why it was decided so, in words. */
function reason(item) {
  return item.reason ? `Why: ${item.reason}` : "No reason was stored with these results.";
}

/** Score of the class and of the next one, against their thresholds. */
function bars(item) {
  const rows = [], most = 1.15 * Math.max(item.score, item.runner_up_score ?? 0, ...Object.values(state.project.run.thresholds)) || 1;
  const add = (id, score) => {
    const limit = state.project.run.thresholds[id] ?? 0;
    const bar = el("b"), mark = el("u");
    bar.style.width = `${(100 * score) / most}%`;
    bar.style.background = classColour(id);
    mark.style.left = `${(100 * limit) / most}%`;
    rows.push(el("span", {}, className(id)), el("i", {}, bar, mark), el("span", {}, score.toFixed(2)));
  };
  const byName = (name) => state.project.classes.find((c) => c.name === name)?.id;
  if (item.class_id != null) add(item.class_id, item.score);
  const rival = byName(item.runner_up);
  if (rival && classOf(rival)) add(rival, item.runner_up_score);
  return el("div", { class: "bars", "aria-label": "Scores; the line is the threshold" , role: "img" }, ...rows);
}

/** The examples that speak most for the decision. */
async function showAlike(box, item) {
  if (item.class_id == null || !state.project.run.has_model) return;
  const found = await get(`/api/detections/${item.id}/evidence`).catch(() => []);
  if (!found.length || !box.isConnected) return;
  const cards = found.map((one) => {
    const canvas = el("canvas", { role: "img", "aria-label": "Spectrogram of an example" });
    thumbnail(canvas, one.recording_id, one.t0, one.t1, 90);
    return el("figure", {}, canvas, el("figcaption", {}, `example at ${timeText(one.t0 / rateOf(one.recording_id), 1)}`));
  });
  box.replaceChildren(el("p", { class: "quiet" }, "Most similar examples"), ...cards);
}

/** A small spectrogram with a little around the note. */
export async function thumbnail(canvas, recording, t0, t1, columns = 160) {
  const rate = rateOf(recording), around = 0.6 * ((t1 - t0) / rate) + 0.05;
  const from = Math.max(0, t0 / rate - around), to = t1 / rate + around;
  try {
    const response = await bytes(`/api/recordings/${recording}/block?t0=${from.toFixed(4)}&t1=${to.toFixed(4)}&columns=${columns}`);
    const data = new Uint8Array(await response.arrayBuffer());
    paint(canvas, data, 256);
    const context = canvas.getContext("2d"), at = (t) => ((t / rate - from) / (to - from)) * columns;
    context.fillStyle = colour("--accent");
    for (const t of [t0, t1]) context.fillRect(at(t) - 0.5, 0, 1, 256);
  } catch { /* the recording's own trouble is told elsewhere */ }
}
