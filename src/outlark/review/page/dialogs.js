// Dialogs: a name, the export, the keys.

import { get } from "./api.js";
import { $, el } from "./dom.js";
import { needsServer, unsaved } from "./outbox.js";
import { state } from "./state.js";

/** Show a dialog; gives what it was closed with. */
export function open(dialog, ...content) {
  dialog.replaceChildren(...content);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue), { once: true }));
}

/** A name as it is stored: without spaces around it, and with single ones within. */
const tidy = (name) => name.trim().replace(/\s+/g, " ");
const nameField = (proposed = "") => el("input", { type: "text", id: "name", maxlength: 60, list: "known-names", autocomplete: "off", value: proposed, required: true });

/** Ask with a form; gives the value of the button it was closed with. */
function asked(question, input, content, ...buttons) {
  const cancel = el("button", { type: "button", onclick: () => $("dialog").close("") }, "Cancel");
  const shown = open($("dialog"), el("form", { method: "dialog" }, el("h2", {}, question), ...content, el("div", { class: "foot" }, ...buttons.slice(0, -1), cancel, buttons.at(-1))));
  input?.focus();
  input?.select();
  return shown;
}

/** Ask for a name; names that there are already are offered. */
export async function askName(question, known = []) {
  const input = nameField();
  const offered = el("datalist", { id: "known-names" }, ...known.map((name) => el("option", { value: name })));
  const said = await asked(question, input, [el("label", { for: "name" }, "Name"), input, offered], el("button", { class: "primary", value: "ok" }, "OK"));
  return said === "ok" ? tidy(input.value) : null;
}

/** Rename or delete a class: the new name, or whether to delete it. */
export async function editName(name) {
  const input = nameField(name);
  const remove = el("button", { class: "remove", type: "button", onclick: () => $("dialog").close("delete") }, "Delete class…");
  const said = await asked(name, input, [el("label", { for: "name" }, "Name"), input], remove, el("button", { class: "primary", value: "ok" }, "Rename"));
  return { name: said === "ok" ? tidy(input.value) : null, remove: said === "delete" };
}

export async function confirmed(question, action, consequence = "This can be undone (Z).") {
  return (await asked(question, null, [el("p", {}, consequence)], el("button", { class: "primary", value: "ok" }, action))) === "ok";
}

export async function showExport() {
  if (needsServer("Export")) return;
  const { formats, scopes } = await get("/api/formats");
  const select = (id, values) => el("select", { id }, ...values.map(([value, text]) => el("option", { value }, text)));
  const format = select("export-format", formats.map((name) => [name, name]));
  const scope = select("export-scope", Object.entries(scopes).map(([name, what]) => [name, `${name}: ${what}`]));
  const which = select("export-which", [[state.recording.id, "this recording"], ["", `all ${state.project.recordings.length} recordings (archive)`]]);
  const link = el("a", { download: "", id: "export-link" });
  const save = el("button", { class: "primary", type: "button", id: "export-save", onclick: () => {
    link.href = `/api/export?format=${format.value}&scope=${scope.value}${which.value ? `&recording=${which.value}` : ""}`;
    link.click();
  } }, "Save table");
  const model = el("button", { type: "button", disabled: !state.project.run?.has_model, onclick: () => { link.href = "/api/model"; link.click(); } }, "Save model for outlark detect");
  await open($("dialog"), el("h2", {}, "Export"),
    el("label", { for: "export-format" }, "Format"), format,
    el("label", { for: "export-scope" }, "What"), scope,
    el("label", { for: "export-which" }, "Of"), which, link,
    unsaved() ? el("p", {}, "Some changes are not saved yet; they will be missing.") : "",
    el("div", { class: "foot" }, model, save, el("button", { type: "button", onclick: () => $("dialog").close() }, "Close")));
}

const KEYS = [
  ["Space", "play or pause"], ["P · L", "play the note · loop it"],
  ["J K", "next, previous in the queue"], ["G", "next note to review"],
  ["Y · N", "confirm · reject (not this), then next"], ["1 … 9", "label or relabel as class"],
  ["U · S", "unknown note · cannot tell"], ["Z · Shift+Z", "undo · redo"],
  ["M", "mark onset at the cursor, then end"], [", .", "move the cursor (Shift: faster)"],
  ["[ ] · { }", "move onset · move end by 5 ms"], ["Enter · Delete", "new class · remove annotation"],
  ["← → · Home End", "pan · to the ends"], ["+ − · 0", "zoom · whole recording"],
  ["T · E", "train · export"], ["C", "gallery of unknown sounds"],
  ["Ctrl+wheel · wheel", "zoom at the pointer · pan"], ["Shift+drag", "mark a frequency band as well"],
];

export async function showKeys() {
  const box = el("input", { type: "checkbox", id: "letters" });
  box.checked = localStorage.getItem("outlark letters") !== "off";
  box.addEventListener("change", () => localStorage.setItem("outlark letters", box.checked ? "on" : "off"));
  const listed = KEYS.flatMap(([key, what]) => [el("kbd", {}, key), el("span", {}, what)]);
  await open($("dialog"), el("h2", {}, "Keys"), el("div", { class: "keys" }, ...listed),
    el("p", { class: "check" }, box, el("label", { for: "letters" }, " Use single keys (every action also has a button)")),
    el("div", { class: "foot" }, el("button", { class: "primary", type: "button", onclick: () => $("dialog").close() }, "Close")));
}
