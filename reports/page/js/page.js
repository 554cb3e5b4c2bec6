// The page: its elements, what is chosen in it, the colours that follow, and how it writes numbers.
import {THEMES} from "./settings.js";

// Each time a new one: to read an old one's state takes its event away where the two coincide (Chromium).
export const systemDark = () => matchMedia("(prefers-color-scheme: dark)");
let printing = false;

export const isPrinting = () => printing;
export function setPrinting(value) { printing = value; }

export const chosen = (name, otherwise) =>
  document.querySelector(`input[name=${name}]:checked`)?.value ?? otherwise;

// What was chosen on another page, or before a reload. A page may have no storage, in a frame for example.
export function kept() {
  try { return localStorage; } catch { return {}; }
}

export function theme() {
  const wish = chosen("theme", "auto");
  const dark = !printing && (wish === "dark" || (wish === "auto" && systemDark().matches));
  return dark ? THEMES.dark : THEMES.light;
}

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in made && name !== "list") made[name] = value; else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export function latency(us, digits = 3) {
  const units = [[1e6, "s"], [1e3, "ms"], [1, "µs"]];
  const [factor, unit] = units.find(([least]) => us >= least * 0.9995) ?? [1e-3, "ns"];
  return Number((us / factor).toPrecision(digits)) + " " + unit;
}

export const pause = (time_ms = 0) => new Promise(done => setTimeout(done, time_ms));
export const seconds = value => Number(value.toFixed(3));

// Seconds since the begin as h:mm:ss.
export const clock = at => [at / 3600, at / 60 % 60, at % 60]
  .map((part, n) => String(Math.floor(part)).padStart(n ? 2 : 1, "0")).join(":");
export const span = (from, to) =>
  to < 1800 ? `${seconds(from)} to ${seconds(to)} s` : `${clock(from)} to ${clock(to)}`;

// For readers of screens: said, not shown.
export function announce(text) {
  document.getElementById("status").textContent = text;
}
