// Draws a figure that Python has made, in the colours and at the width of the page.
import {exact} from "./cells.js";
import {figures} from "./library.js";
import {chosen, isPrinting, theme} from "./page.js";

// Stored columns and rows that are drawn at most; more are merged, as Python has them.
const MOST = [600, 256];
const NARROW_PX = 520;

function hue(tier) {
  const {hues} = theme();
  return hues[chosen("palette", "classic")][tier] ?? hues.other;
}

const scaled = colours => colours.map((colour, n) => [n / (colours.length - 1), colour]);

function painted(trace) {
  const {tier, ink, difference} = trace.meta ?? {}, colours = theme();
  if (difference) return {...trace, colorscale: scaled(colours.difference)};
  if (ink) return {...trace, line: {...trace.line, color: colours.ink}};
  if (!tier) return trace;
  const [few, many] = hue(tier), colorscale = scaled([few, many]);
  if (trace.type === "heatmap") return {...trace, colorscale};
  const {marker, line} = trace, made = {...trace};
  if (line) made.line = {...line, color: many};
  if (marker) made.marker = marker.colorscale ? {...marker, colorscale} : {...marker, color: many};
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
export function selected({spec, link}) {
  const {link: color} = {link: theme().template.layout.newselection.line.color};
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

export function layoutOf(figure) {
  const {spec, target, link} = figure, narrow = target.clientWidth < NARROW_PX && !isPrinting();
  const base = narrow ? merged(spec.layout, spec.narrow) : spec.layout;
  const layout = {...base, template: theme().template, uirevision: "kept",
    shapes: [...base.shapes ?? [], ...selected(figure)]};
  if (link.view) layout.xaxis = {...base.xaxis, range: link.view, autorange: false};
  if (isPrinting()) Object.assign(layout, {width: 980, autosize: false});
  return layout;
}

// Where it merges cells and the part in view has few enough of them, they are drawn as they are stored.
function detailed(figure) {
  const {cells, spec, exactly, target} = figure, {per} = spec.about;
  if (!cells || !per || spec.about.histogram) return spec.data;
  const axes = target._fullLayout, edges = cells.edges_us;
  const [x0, x1] = figure.link.view ?? spec.layout.xaxis.range;
  const columns = [Math.max(0, Math.floor(x0 / cells.width_s + 1e-9)),
    Math.min(cells.columns, Math.ceil(x1 / cells.width_s - 1e-9))];
  let [y0, y1] = axes?.yaxis.range ?? spec.layout.yaxis.range;
  if (spec.layout.yaxis.type === "log") [y0, y1] = [10 ** y0, 10 ** y1];
  const first = Math.max(0, edges.findLastIndex(us => us <= y0 * 1e6));
  const after = edges.findIndex(us => us >= y1 * 1e6), last = after < 0 ? cells.rows : after;
  const fits = columns[1] - columns[0] <= MOST[0] && last - first <= MOST[1];
  figure.isExact = (exactly || figure.isZoomed) && fits && last > first && columns[1] > columns[0];
  if (!figure.isExact) return spec.data;
  return spec.data.map(trace => trace.type === "heatmap"
    ? {...trace, ...exact(cells, trace.meta.tier, per, columns, [first, last])} : trace);
}

const CONFIG = {
  responsive: true, displaylogo: false, scrollZoom: false,
  // "Share chart..." would post the figure to a server from a new window, past this page's policy.
  showSendToCloud: false, plotlyServerURL: "",
  modeBarButtonsToRemove: ["lasso2d", "autoScale2d", "toImage"],
};

export async function draw(figure) {
  const {target} = figure;
  await Plotly.react(target, detailed(figure).map(painted), layoutOf(figure), CONFIG);
  // The figure itself takes the keys; its buttons are for the mouse.
  for (const button of target.querySelectorAll(".modebar [tabindex], .modebar button, .modebar a")) {
    button.tabIndex = -1;
  }
}

export const linked = ({link}) => [...figures.values()].filter(other => other.link === link && other.begun);
