// Opens a page: inflates what it holds, draws each figure when its turn comes, answers theme and printer.
import {openCells} from "./cells.js";
import {preview} from "./figure.js";
import {heatMap} from "./heat_map.js";
import {begin, beginNow, figures, openLibrary} from "./library.js";
import {chosen, setPrinting, systemDark} from "./page.js";
import {still} from "./still.js";

const pause = (time_ms = 0) => new Promise(done => setTimeout(done, time_ms));
const idle = () => window.requestIdleCallback
  ? new Promise(done => requestIdleCallback(done, {timeout: 2000})) : pause();
let lastInput = -Infinity;

// Theme, palette or paper have changed: what is drawn is drawn again, the rest will be as it then is.
function repaint() {
  document.documentElement.dataset.theme = chosen("theme", "auto");
  for (const figure of figures.values()) if (figure.begun) figure.again();
}

// Printing does not wait: what is not drawn yet is drawn now.
function drawAll() {
  setPrinting(true);
  repaint();
  for (const [target, figure] of figures) {
    if (figure.begun) continue;
    if (window.Plotly) beginNow(figure);
    else if (figure.state && target.clientWidth) preview(figure.state);
  }
}

function isNear(target) {
  const box = target.getBoundingClientRect();
  return box.bottom > -innerHeight && box.top < 2 * innerHeight;
}

// Each figure with its controls, and the picture of those in view; cells are opened once for all figures.
async function openFigures() {
  const opened = new Map();
  const open = async name => {
    if (!opened.has(name)) {
      opened.set(name, await openCells(JSON.parse(document.getElementById(name).textContent)));
    }
    return opened.get(name);
  };
  for (const source of document.querySelectorAll("script[id^=figure-]")) {
    const target = document.getElementById(source.id.replace("-data", ""));
    const spec = JSON.parse(source.textContent);
    if (spec.figure) {
      const blocks = [];
      for (const name of spec.blocks ?? []) blocks.push(await open(name));
      still(target, spec, blocks);
    } else {
      heatMap(target, spec, await open(spec.cells));
      if (isNear(target) && !spec.lines && !spec.histogram) preview(target.state);
    }
  }
}

function listen() {
  for (const control of document.querySelectorAll("input[name=theme], input[name=palette]")) {
    control.addEventListener("change", repaint);
  }
  systemDark.addEventListener("change", repaint);
  addEventListener("beforeprint", drawAll);
  addEventListener("afterprint", () => { setPrinting(false); repaint(); });
  for (const type of ["pointerdown", "pointermove", "wheel", "keydown", "scroll"]) {
    addEventListener(type, () => { lastInput = performance.now(); }, {capture: true, passive: true});
  }
}

await openFigures();
listen();
await openLibrary();
const seen = new IntersectionObserver(entries => {
  for (const {target} of entries.filter(entry => entry.isIntersecting)) {
    seen.unobserve(target);
    begin(target);
  }
}, {rootMargin: "300px 0px"});
for (const target of figures.keys()) seen.observe(target);
// The others in idle time, so that they are drawn before somebody scrolls, searches or prints.
for (const [target, figure] of figures) {
  while (!figure.begun && (await idle(), performance.now() - lastInput < 500)) await pause(100);
  await begin(target);
  await pause();
}
