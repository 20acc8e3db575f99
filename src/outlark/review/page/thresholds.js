// Thresholds: one for all classes on the score track, one for each class on the histogram of its scores.

import { setThresholds } from "./actions.js";
import { get } from "./api.js";
import { $, colour, el, fitted, say, tell } from "./dom.js";
import { needsServer } from "./outbox.js";
import { changed, ofRun, on, state } from "./state.js";
import { chip, classColour, className } from "./theme.js";
import { valueAt } from "./scores.js";

const STEP = 1.05;
let found = [];

export function startThresholds() {
  startLine();
  for (const id of ["review", "thresholds"]) $(`tab-${id}`).addEventListener("click", () => pick(id));
  document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") { pick($("panel-review").hidden ? "review" : "thresholds", true); event.preventDefault(); }
  });
  on("calibration", load);
  on("theme", draw);
}

function pick(id, focus = false) {
  for (const one of ["review", "thresholds"]) {
    $(`panel-${one}`).hidden = one !== id;
    $(`tab-${one}`).setAttribute("aria-selected", String(one === id));
    $(`tab-${one}`).tabIndex = one === id ? 0 : -1;
  }
  if (focus) $(`tab-${id}`).focus();
  if (id === "thresholds") load();
}

// ----------------------------------------------------------- one for all

function startLine() {
  const handle = $("threshold"), box = $("scores");
  handle.addEventListener("pointerdown", (event) => { handle.setPointerCapture(event.pointerId); state.dragging = state.factor; event.preventDefault(); handle.focus(); });
  handle.addEventListener("pointermove", (event) => {
    if (state.dragging === null || !(event.buttons & 1)) return;
    const top = box.getBoundingClientRect().top;
    state.dragging = valueAt(event.clientY - top, box.clientHeight);
    changed("view");
  });
  handle.addEventListener("pointerup", release);
  handle.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    event.preventDefault();
    event.stopPropagation();
    state.dragging = (state.dragging ?? state.factor) * (event.key === "ArrowUp" ? STEP : 1 / STEP);
    changed("view");
  });
  handle.addEventListener("keyup", (event) => { if (event.key.startsWith("Arrow")) release(); });
}

async function release() {
  if (state.dragging === null) return;
  const factor = state.dragging, { run } = state.project;
  const moved = Math.abs(Math.log(factor / state.factor)) > 1e-3;
  if (moved && !needsServer("A new threshold")) {
    const scale = factor / state.factor;
    state.factor = factor;
    const values = Object.fromEntries(run.class_ids.map((id) => [id, run.wanted[id] * scale]));
    say(`Threshold × ${factor.toFixed(2)}`);
    await setThresholds(values);
  }
  state.dragging = null;
  changed("view");
}

// --------------------------------------------------------- one for each

async function load() {
  if ($("panel-thresholds").hidden) return;
  try { found = await get(ofRun("/api/calibration")); } catch (error) { tell(error); return; }
  draw();
}

function draw() {
  const panel = $("panel-thresholds");
  if (panel.hidden) return;
  if (!found.length) { panel.replaceChildren(el("p", { class: "empty" }, "After training, this shows the scores of each class and the threshold above which a sound counts as a note of the class.")); return; }
  panel.replaceChildren(el("p", { class: "empty" }, "Number of sounds at each score. Drag the line to where notes end and other sounds begin."), ...found.map(histogram));
}

function histogram(h) {
  const canvas = el("canvas", { "aria-hidden": "true" });
  const name = className(h.class_id);
  const slider = el("div", { class: "plotted", role: "slider", tabindex: "0", "aria-label": `Threshold of ${name}`, "aria-valuemin": h.edges[0].toFixed(3), "aria-valuemax": h.edges.at(-1).toFixed(3), "aria-valuenow": h.threshold.toFixed(3) }, canvas);
  const text = el("p");
  const shown = { value: h.threshold };
  const redraw = () => { plot(canvas, h, shown.value); slider.setAttribute("aria-valuenow", shown.value.toFixed(3)); text.textContent = words(h, shown.value); };
  const set = () => {
    if (Math.abs(Math.log(shown.value / h.threshold)) <= 1e-3) return;
    if (needsServer("A new threshold")) { shown.value = h.threshold; redraw(); return; }
    h.threshold = shown.value;
    setThresholds({ [h.class_id]: shown.value });
  };
  const scale = (event) => { const box = slider.getBoundingClientRect(); return h.edges[0] * (h.edges.at(-1) / h.edges[0]) ** Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)); };
  slider.addEventListener("pointerdown", (event) => { slider.setPointerCapture(event.pointerId); shown.value = scale(event); redraw(); });
  slider.addEventListener("pointermove", (event) => { if (event.buttons & 1) { shown.value = scale(event); redraw(); } });
  slider.addEventListener("pointerup", set);
  slider.addEventListener("keydown", (event) => {
    const way = { ArrowRight: STEP, ArrowUp: STEP, ArrowLeft: 1 / STEP, ArrowDown: 1 / STEP }[event.key];
    if (way) { shown.value *= way; redraw(); event.preventDefault(); event.stopPropagation(); }
  });
  slider.addEventListener("keyup", (event) => { if (event.key.startsWith("Arrow")) set(); });
  const use = h.valley && Math.abs(Math.log(h.valley / h.threshold)) > 0.01
    ? el("button", { class: "use", type: "button", onclick: () => { shown.value = h.valley; redraw(); set(); } }, `Use the emptiest place nearby (${h.valley.toFixed(2)})`) : null;
  requestAnimationFrame(redraw);
  return el("div", { class: "histogram" }, el("h3", {}, chip(h.class_id), name), slider, text, use);
}

/** What a threshold means by what was reviewed. */
function words(h, threshold) {
  const n = h.counts.reduce((sum, count, k) => sum + (h.edges[k] >= threshold ? count : 0), 0);
  const right = h.right.filter((s) => s >= threshold).length, wrong = h.wrong.filter((s) => s >= threshold).length;
  const judged = right + wrong ? ` Right: ${right} of ${right + wrong} reviewed.` : " None reviewed yet.";
  return `Threshold ${threshold.toFixed(2)} (training ${h.prior.toFixed(2)}): about ${n} notes.${judged}`;
}

function plot(canvas, h, threshold) {
  const { context, width: w, height } = fitted(canvas);
  const axis = 28, high = height - axis, at = (s) => (Math.log(s / h.edges[0]) / Math.log(h.edges.at(-1) / h.edges[0])) * w;
  const most = Math.max(1, ...h.counts);
  h.counts.forEach((n, k) => {
    const a = at(h.edges[k]), b = at(h.edges[k + 1]), tall = (n / most) * (high - 10);
    context.fillStyle = h.edges[k] >= threshold ? classColour(h.class_id) : colour("--dim");
    context.globalAlpha = h.edges[k] >= threshold ? 0.85 : 0.4;
    context.fillRect(a, high - tall, Math.max(1, b - a - 1), tall);
  });
  context.globalAlpha = 1;
  const tick = (scores, ink, sign, py) => { context.fillStyle = ink; context.font = "10px system-ui"; context.textAlign = "center"; for (const s of scores) context.fillText(sign, Math.min(w - 4, Math.max(4, at(s))), py); };
  tick(h.right, colour("--good"), "✓", 9);
  tick(h.wrong, colour("--bad"), "✗", 19);
  context.fillStyle = colour("--dim");
  context.fillRect(0, high, w, 1);
  context.textAlign = "center";
  for (const s of [0.1, 0.2, 0.5, 1, 2, 5]) if (s > h.edges[0] && s < h.edges.at(-1)) context.fillText(String(s), Math.min(w - 8, Math.max(8, at(s))), high + 12);
  context.fillText("score", w / 2, height - 3);
  context.textAlign = "left";
  context.fillText(`${most} sounds`, 0, 9);
  context.fillStyle = colour("--text");
  context.fillRect(at(threshold) - 1, 0, 2, high);
}
