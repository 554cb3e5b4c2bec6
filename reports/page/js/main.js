// Opens a page: inflates what it holds, draws each figure when its turn comes, answers theme and printer.
import {openCells} from "./cells.js";
import {inflate} from "./encoding.js";
import {draw, isNarrow, listenToTheme, redraw, repaint} from "./figure.js";
import {cursor} from "./keys.js";
import {begin, beginNow, figures, openLibrary} from "./library.js";
import {pause, setPrinting} from "./page.js";
import {controls} from "./saving.js";
import {choose, fromAddress, listen, rangePanel, select, tell} from "./selection.js";
import {labelled, sortable} from "./sorting.js";

const idle = () => window.requestIdleCallback
  ? new Promise(done => requestIdleCallback(done, {timeout: 2000})) : pause();
// By the name of a phase: what is selected and zoomed to in all its figures.
const links = new Map();
let lastInput = -Infinity;

// Printing does not wait: what is not drawn yet is drawn now.
function drawAll() {
  setPrinting(true);
  for (const figure of figures.values()) {
    if (figure.begun) draw(figure); else if (window.Plotly && figure.target.clientWidth) beginNow(figure);
  }
}

const linkOf = name => {
  const link = links.get(name) ?? {name, range: null, band: null, view: null, tier: null};
  if (name) links.set(name, link);
  return link;
};

async function open(id) {
  return JSON.parse(new TextDecoder().decode(await inflate(document.getElementById(id).textContent)));
}

// Each figure with its controls; cells are opened once for all figures.
async function openFigures() {
  const opened = new Map();
  for (const source of document.querySelectorAll("script[id^=figure-]")) {
    const target = document.getElementById(source.id.replace("-data", "")), spec = await open(source.id);
    const {cells: name} = spec;
    if (name && !opened.has(name)) opened.set(name, openCells(await open(name)));
    const figure = {target, spec, cells: name ? await opened.get(name) : null, link: linkOf(spec.link)};
    figure.first = async () => { await draw(figure); listen(figure); };
    figures.set(target, figure);
    const box = target.closest("figure");
    box.prepend(controls(figure));
    if (spec.about.panel || spec.about.histogram) target.after(rangePanel(figure));
    if (spec.data.some(trace => trace.type === "heatmap")) cursor(figure, choose);
    tell(figure);
  }
}

function listenToPage() {
  listenToTheme();
  addEventListener("beforeprint", drawAll);
  addEventListener("afterprint", () => { setPrinting(false); repaint(); });
  addEventListener("resize", () =>
    redraw([...figures.values()].filter(figure => figure.narrow !== isNarrow(figure))));
  addEventListener("hashchange", () => fromAddress(links));
  addEventListener("keydown", ({key}) => {
    if (key !== "Escape") return;
    for (const {target} of figures.values()) if (target._fullLayout) Plotly.Fx.unhover(target);
    for (const link of new Set([...figures.values()].map(figure => figure.link))) {
      if (link.range || link.band) select(link, null, null);
    }
  });
  for (const type of ["pointerdown", "pointermove", "wheel", "keydown", "scroll"]) {
    addEventListener(type, () => { lastInput = performance.now(); }, {capture: true, passive: true});
  }
}

listenToPage();
await openFigures();
labelled();
sortable();
fromAddress(links);
await openLibrary();
const seen = new IntersectionObserver(entries => {
  for (const {target} of entries.filter(entry => entry.isIntersecting)) {
    seen.unobserve(target);
    begin(figures.get(target));
  }
}, {rootMargin: "300px 0px"});
for (const target of figures.keys()) seen.observe(target);
// The others in idle time, so that they are drawn before somebody scrolls, searches or prints.
// Those without a size yet are drawn when they get one.
for (const figure of figures.values()) {
  if (!figure.target.clientWidth) continue;
  while (!figure.begun && (await idle(), performance.now() - lastInput < 500)) await pause(100);
  await begin(figure);
  await pause();
}
