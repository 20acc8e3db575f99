// Small helpers for the document: elements are made, never parsed, so that names of classes and files stay text.

export const $ = (id) => document.getElementById(id);

/** An element with attributes, listeners (on…) and children. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

export function say(text) { $("status").textContent = text; }

const MOST_ALERTS = 4, ALERT_MS = 20000;

/** Show a message until it is closed, or has been in view for a while: nobody is pointing at it, and the tab is seen. */
export function alertUser(text) {
  const alerts = $("alerts");
  for (const old of [...alerts.children]) if (old.firstChild.textContent === text) old.remove();
  const box = el("p", {}, el("span", {}, text), el("button", { type: "button", onclick: () => box.remove() }, "Close"));
  alerts.append(box);
  while (alerts.children.length > MOST_ALERTS) alerts.firstChild.remove();
  let seen = 0;
  const timer = setInterval(() => {
    if (!document.hidden && !box.matches(":hover, :focus-within")) seen += 1000;
    if (seen < ALERT_MS && box.isConnected) return;
    clearInterval(timer);
    box.remove();
  }, 1000);
}

/** Tell of an error, unless it is that the server does not answer: that stands in the footer. */
export function tell(error) { if (error.status !== 0) alertUser(error.message); }

// sizes are remembered: to ask for them in the middle of drawing makes the browser lay out the page each time
const sizes = new WeakMap();
let whenResized = () => {};
const watcher = new ResizeObserver((entries) => {
  for (const { target } of entries) sizes.set(target, { width: target.clientWidth, height: target.clientHeight });
  whenResized();
});
export function onResize(listener) { whenResized = listener; }

/** Width and height in CSS pixels. */
export function sizeOf(canvas) {
  if (!sizes.has(canvas)) { sizes.set(canvas, { width: canvas.clientWidth, height: canvas.clientHeight }); watcher.observe(canvas); }
  return sizes.get(canvas);
}

/** A canvas whose pixels are those of the screen; gives its context and size in CSS pixels. */
export function fitted(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { width, height } = sizeOf(canvas);
  const w = Math.round(width * ratio), h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

/** m:ss.mmm, or h:mm:ss for long times. */
export function timeText(t, digits = 3) {
  const whole = Math.max(0, t), h = Math.floor(whole / 3600), m = Math.floor(whole / 60) % 60;
  const s = (whole % 60).toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  if (Number(s) >= 60) return timeText(Math.round(whole), 0);
  return h ? `${h}:${String(m).padStart(2, "0")}:${s}` : `${m}:${s}`;
}

const colours = new Map();
/** A colour of the theme, by the name of its CSS variable. */
export function colour(name) {
  const key = `${document.documentElement.dataset.theme} ${name}`;
  if (!colours.has(key)) colours.set(key, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colours.get(key);
}

/** The same function, called once in the next frame however often it is asked for. */
export function soon(draw) {
  let asked = false;
  return () => { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; draw(); }); } };
}
