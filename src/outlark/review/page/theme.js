// Themes, class colours and signs. Colours were computed to be told apart in four kinds of colour vision,
// but for the eighth on dark, which was chosen by eye: its sign tells it apart.

import { $, el } from "./dom.js";
import { changed, classOf, keyOf, state } from "./state.js";

const DARK = ["#56B4E9", "#F0E442", "#D55E00", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#B9A6FF"];
const LIGHT = ["#311861", "#9E79F3", "#AA0C00", "#0C6161", "#550018", "#CE7900", "#319E92", "#7900CE"];
const GLYPHS = ["●", "■", "▲", "◆", "✚", "★", "▼", "⬟"];
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [4, 4], [12, 4], [1, 2], [6, 2, 2, 2]];

export const theme = () => document.documentElement.dataset.theme;
export const isDark = () => theme() === "dark";
const of = (list, index) => list[((index % 8) + 8) % 8];

export function classColour(id) {
  const found = id == null ? null : classOf(id);
  if (!found) return isDark() ? "#9aa7b1" : "#6a747d";
  return of(isDark() ? DARK : LIGHT, found.colour);
}
export function classGlyph(id) {
  const found = id == null ? null : classOf(id);
  return found ? of(GLYPHS, found.colour) : "?";
}
export function classDash(id) { return of(DASHES, classOf(id)?.colour ?? 0); }
export const className = (id) => (id == null ? "unknown" : classOf(id)?.name ?? "?");

/** Black or white, whichever is read better on a colour. */
export function onColour(hex) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff";
}

/** The sign of a class: its colour, its glyph, never its colour alone. */
export function chip(id) {
  const box = el("span", { class: "chip", "aria-hidden": "true" }, classGlyph(id));
  box.style.background = classColour(id);
  box.style.color = onColour(classColour(id));
  return box;
}
export const keyText = (id) => { const key = keyOf(id); return key >= 1 && key <= 9 ? String(key) : ""; };

export function startTheme() {
  const preferred = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const chosen = $("theme").value;
    document.documentElement.dataset.theme = chosen === "auto" ? (preferred.matches ? "dark" : "light") : chosen;
    changed("theme");
    if (state.project) changed("project", "queue", "view");
  };
  $("theme").value = localStorage.getItem("outlark theme") ?? "auto";
  $("theme").addEventListener("change", () => { localStorage.setItem("outlark theme", $("theme").value); apply(); });
  preferred.addEventListener("change", apply);
  apply();
}
