// Draws a figure that Python has made, in the colours and at the width of the page.
import {columnsOf, exact, lengthOf, summed} from "./cells.js";
import {figures} from "./library.js";
import {chosen, isPrinting, pause, seconds, systemDark, theme} from "./page.js";
import {waitedNote, withWaits} from "./waited.js";

// Stored columns and rows that are drawn at most; more are merged, as Python has them.
const MOST = [480, 256];
const NARROW_PX = 520;

function hue(tier) {
  const {hues} = theme(), known = hues[chosen("palette", "classic")];
  return Object.hasOwn(known, tier) ? known[tier] : hues.other;
}

const scaled = colours => colours.map((colour, n) => [n / (colours.length - 1), colour]);

function painted(trace) {
  const {tier, ink, difference} = trace.meta ?? {}, colours = theme(), {marker, line} = trace;
  // What nobody can click on paper needs no name there.
  const made = {...trace, ...isPrinting() && trace.visible === "legendonly" ? {showlegend: false} : {}};
  if (difference) return {...made, colorscale: scaled(colours.difference)};
  if (ink) return {...made, line: {...line, color: colours.ink}};
  if (!tier) return made;
  const colorscale = scaled(hue(tier)), [, color] = hue(tier);
  if (trace.type === "heatmap") return {...made, colorscale};
  if (line) made.line = {...line, color};
  if (marker) made.marker = {...marker, ...marker.colorscale ? {colorscale} : {color}};
  return made;
}

// Of an object and what is to be changed in it, at any depth.
function merged(base, changes) {
  const made = {...base};
  for (const [key, value] of Object.entries(changes)) {
    const both = value && base[key] && typeof value === "object" && !Array.isArray(value);
    made[key] = both ? merged(base[key], value) : value;
  }
  return made;
}

// The shapes of what is selected in the figures of one phase: a range of time, a band of latency.
function selected({spec, link}) {
  const {color} = theme().template.layout.newselection.line;
  const box = {type: "rect", fillcolor: color, opacity: 0.14, line: {width: 1, color}, layer: "above"};
  const made = [];
  if (link.range) {
    const [x0, x1] = link.range;
    made.push({...box, xref: "x", yref: "paper", x0, x1, y0: 0, y1: 1});
  }
  if (link.band && spec.about.per !== "") {
    const [y0, y1] = link.band;
    made.push({...box, xref: "paper", yref: "y", x0: 0, x1: 1, y0, y1});
  }
  return made;
}

// A copy, as Plotly writes into it. The time axis is the phase's; another that was zoomed is kept.
export function layoutOf(figure, isWide = isPrinting()) {
  const {spec, target, link} = figure, narrow = target.clientWidth < NARROW_PX && !isWide;
  const layout = structuredClone(narrow ? merged(spec.layout, spec.narrow) : spec.layout);
  // One finger scrolls the page.
  if (narrow) layout.dragmode = false;
  Object.assign(layout, {template: theme().template, uirevision: "kept",
    shapes: [...layout.shapes ?? [], ...selected(figure)]});
  if (layout.xaxis) layout.xaxis.uirevision = String(link.view);
  if (link.view) Object.assign(layout.xaxis, {range: link.view, autorange: false});
  if (isPrinting()) {
    // Two maps fill a page; nothing is longer than one.
    const most = {octave: 268, us: 236}[spec.about.per] ?? 620;
    Object.assign(layout, {width: 980, autosize: false, height: Math.min(layout.height, most)});
  }
  return layout;
}

// Where it merges cells and the part in view has few enough of them, they are drawn as they are stored.
function detailed(figure) {
  const {cells, spec, exactly, target, link} = figure, {per} = spec.about;
  figure.note = "";
  if (!cells || !per || spec.about.histogram) return spec.data;
  const {type, range} = spec.layout.yaxis, edges = cells.edges_us;
  const shown = target._fullLayout?.yaxis.range ?? range;
  if (!exactly && !link.view && String(shown) === String(range)) return spec.data;
  const columns = columnsOf(cells, link.view ?? spec.layout.xaxis.range);
  const [y0, y1] = shown.map(edge => (type === "log" ? 10 ** edge : edge) * 1e6);
  const first = Math.max(0, edges.findLastIndex(us => us <= y0));
  const after = edges.findIndex(us => us >= y1), last = after < 0 ? cells.rows : after;
  if (columns[1] - columns[0] > MOST[0] || last - first > MOST[1] || last <= first) {
    if (exactly) figure.note = " Too many bins in view to draw each: zoom in.";
    return spec.data;
  }
  const {merged: intervals, width_s} = cells;
  figure.note = intervals > 1 ? ` In view: exact bins of latency, ${seconds(width_s)} s wide.`
    : " In view: exact bins.";
  return spec.data.map(trace => {
    if (trace.type !== "heatmap") return trace;
    const {wait_s, ...made} = exact(cells, trace.meta.tier, per, columns, [first, last]);
    return {...trace, ...made, meta: {...trace.meta, wait_s}};
  });
}

// The bars at the left are the rates of the selected range.
function rated({cells, link}, trace) {
  if (!trace.meta?.rates || !link.range) return trace;
  const {y, width, meta} = trace, {edges_us: edges} = cells;
  const span = columnsOf(cells, link.range), length = lengthOf(cells, span);
  const counts = summed(cells, meta.tier, span);
  let r = 0;
  const customdata = y.map((low, k) => {
    let sum = 0;
    while (r < cells.rows && edges[r] < low * 1e6 * (1 - 1e-9)) r += 1;
    while (r < cells.rows && edges[r + 1] <= (low + width[k]) * 1e6 * (1 + 1e-9)) sum += counts[r++];
    return sum;
  });
  const x = customdata.map((sum, k) => sum / Math.log2(1 + width[k] / y[k]) / length);
  return {...trace, x, customdata};
}

const CONFIG = {
  responsive: true, displaylogo: false, scrollZoom: false,
  // "Share chart..." would post the figure to a server from a new window, past this page's policy.
  showSendToCloud: false, plotlyServerURL: "",
  modeBarButtonsToRemove: ["lasso2d", "autoScale2d", "toImage"],
};

// An item of the legend as a button: Plotly takes the mouse alone.
function pressable(toggle) {
  const item = toggle.closest(".traces"), name = item.querySelector(".legendtext")?.textContent ?? "";
  const attributes = {tabindex: 0, role: "button", "aria-label": name,
    "aria-pressed": item.style.opacity === "" || Number(item.style.opacity) === 1};
  for (const [key, value] of Object.entries(attributes)) toggle.setAttribute(key, value);
  toggle.onkeydown = event => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    for (const type of ["mousedown", "mouseup"]) toggle.dispatchEvent(new MouseEvent(type, {bubbles: true}));
  };
}

const pressables = target => target.querySelectorAll(".legendtoggle").forEach(pressable);

export async function draw(figure) {
  const {target, waited} = figure;
  const data = detailed(figure).map(trace => painted(withWaits(rated(figure, trace), waited)));
  await Plotly.react(target, data, layoutOf(figure), CONFIG);
  const caption = target.closest("figure").querySelector("figcaption");
  figure.caption ??= caption.textContent;
  caption.textContent = figure.caption + figure.note + waitedNote(figure);
  // The figure itself takes the keys; its buttons are for the mouse.
  for (const button of target.querySelectorAll(".modebar [tabindex], .modebar button, .modebar a")) {
    button.tabIndex = -1;
  }
  if (!figure.listens) target.on("plotly_restyle", () => pressables(target));
  figure.listens = true;
  pressables(target);
}

// Draws again what is drawn, one figure after the other: before each the page answers.
export async function redraw(all = [...figures.values()]) {
  for (const figure of all.filter(({begun}) => begun)) {
    await pause();
    await draw(figure);
  }
}

// Theme or palette have changed: what is drawn is drawn again, the rest will be as it then is.
export function repaint() {
  document.documentElement.dataset.theme = chosen("theme", "auto");
  return redraw();
}

export function listenToTheme() {
  for (const control of document.querySelectorAll("input[name=theme], input[name=palette]")) {
    control.addEventListener("change", repaint);
  }
  systemDark().addEventListener("change", repaint);
}

export const linked = link => [...figures.values()].filter(figure => figure.link === link);
