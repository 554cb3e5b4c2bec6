// Draws a figure that Python has made, in the colours and at the width of the page.
import {columnsOf, exact, lengthOf, summed} from "./cells.js";
import {figures} from "./library.js";
import {chosen, clock, isPrinting, kept, latency, pause, seconds, systemDark, theme} from "./page.js";
import {rescaled, waited, waitedNote} from "./shading.js";
import {withTooltips} from "./tooltip.js";

// Stored columns and rows that are drawn at most; more are merged, as Python has them.
const MOST = [480, 256];
const NARROW_PX = 520;
// Where words beside a figure have no room.
export const isNarrow = ({target, spec}) => target.clientWidth < (spec.about.narrow_px ?? NARROW_PX);
const WAIT_RATE = "s waited/s/octave";

function hue(tier) {
  const {hues} = theme(), known = hues[chosen("palette", "classic")];
  return Object.hasOwn(known, tier) ? known[tier] : hues.other;
}

const scaled = colours => colours.map((colour, n) => [n / (colours.length - 1), colour]);

function painted(trace) {
  const {tier, ink, difference, pale} = trace.meta ?? {}, colours = theme(), {marker, line} = trace;
  // What nobody can click on paper needs no name there.
  const made = {...trace, ...isPrinting() && trace.visible === "legendonly" ? {showlegend: false} : {}};
  if (difference) return {...made, colorscale: scaled(colours.difference)};
  if (ink) {
    if (marker) made.marker = {...marker, color: colours.ink};
    return {...made, line: {...line, color: colours.ink}};
  }
  if (!tier) return made;
  const colorscale = scaled(hue(tier)), color = hue(tier)[pale ? 0 : 1];
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

// The shape of what is selected in the figures of one phase: a range of time, a band of latency, or both.
function selected({spec, link: {range, band}}) {
  const {color} = theme().template.layout.newselection.line, inBand = band && spec.about.per !== "";
  const [x0, x1] = range ?? [0, 1], [y0, y1] = inBand ? band : [0, 1];
  return range || inBand ? [{type: "rect", fillcolor: color, opacity: 0.14, line: {width: 1, color}, x0, x1,
    y0, y1, layer: "above", xref: range ? "x" : "paper", yref: inBand ? "y" : "paper"}] : [];
}

const STEPS_S = [1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 604800];

// Labels of a logarithmic axis: 1, 2 and 5, or whole decades; of a short one Plotly finds them. Hours: h:mm.
function ticked(layout, drawn) {
  for (const [name, axis] of Object.entries(layout)) {
    if (!/^[xy]axis/.test(name) || axis.tickvals) continue;
    const [low, high] = (name !== "xaxis" && drawn?.[name]?.range) || axis.range || [0, 1];
    const length = high - low;
    if (axis.type === "log" && length >= 0.7) axis.dtick = length > 4.5 ? 1 : "D2";
    if (axis.title?.text !== "h:mm") continue;
    const step = STEPS_S.find(each => length / each <= (axis.nticks ?? 9)) ?? length;
    axis.tickvals = [];
    for (let at = Math.ceil(low / step) * step; at <= high; at += step) axis.tickvals.push(at);
    axis.ticktext = axis.tickvals.map(at => clock(at).slice(0, step < 60 ? undefined : -3));
  }
}

// A copy, as Plotly writes into it. The time axis is the phase's; another that was zoomed is kept.
// `heights`: the range of latency that was asked for, on the figure's axis.
export function layoutOf(figure, isWide = isPrinting()) {
  const {spec, target, link} = figure, narrow = isNarrow(figure) && !isWide;
  const layout = structuredClone(narrow ? merged(spec.layout, spec.narrow) : spec.layout);
  // One finger scrolls the page.
  if (target.clientWidth < NARROW_PX && !isWide) layout.dragmode = false;
  Object.assign(layout, {template: theme().template, uirevision: "kept", selectionrevision: performance.now(),
    shapes: [...layout.shapes ?? [], ...selected(figure)]});
  if (layout.xaxis) layout.xaxis.uirevision = String(link.view);
  if (link.view) Object.assign(layout.xaxis, {range: link.view, autorange: false});
  if (layout.yaxis) layout.yaxis.uirevision = String(figure.heights);
  if (figure.heights) layout.yaxis.range = figure.heights;
  ticked(layout, target._fullLayout);
  if (link.waited && layout.xaxis2) layout.xaxis2.title.text = WAIT_RATE;
  if (isPrinting()) {
    // Two maps fill a page; nothing is longer than one.
    // The first one stands below the answer.
    const isFirst = target.closest("figure").previousElementSibling?.tagName === "HEADER";
    const most = {octave: 268, us: 236}[spec.about.per] ?? (isFirst ? 380 : 620);
    Object.assign(layout, {width: 980, autosize: false, height: Math.min(layout.height, most)});
  }
  return layout;
}

// Where it merges cells and the part in view has few enough of them, they are drawn as they are stored.
function detailed(figure) {
  const {cells, spec, target, link} = figure, {per} = spec.about, {exactly} = link;
  figure.isExact = false;
  figure.note = spec.about.cell ?? "";
  if (!cells || !per || spec.about.histogram) return spec.data;
  const {type, range} = spec.layout.yaxis, edges = cells.edges_us;
  const shown = figure.heights ?? target._fullLayout?.yaxis.range ?? range;
  if (!exactly && !link.view && String(shown) === String(range)) return spec.data;
  const columns = columnsOf(cells, link.view ?? spec.layout.xaxis.range);
  const [y0, y1] = shown.map(edge => (type === "log" ? 10 ** edge : edge) * 1e6);
  const first = Math.max(0, edges.findLastIndex(us => us <= y0));
  const after = edges.findIndex(us => us >= y1), last = after < 0 ? cells.rows : after;
  if (columns[1] - columns[0] > MOST[0] || last - first > MOST[1] || last <= first) {
    if (exactly) figure.note += " Too many bins in view to draw each: zoom in.";
    return spec.data;
  }
  const {merged: intervals, width_s} = cells;
  figure.isExact = true;
  figure.note = "In view: exact bins" + (intervals > 1 ? ` of latency, ${seconds(width_s)} s wide.` : ".");
  return spec.data.map(trace => {
    if (trace.type !== "heatmap") return trace;
    const {wait_s, ...made} = exact(cells, trace.meta.tier, per, columns, [first, last]);
    return {...trace, ...made, meta: {...trace.meta, wait_s}};
  });
}

// The bars at the left are the rates of the selected range: of I/Os, or of the time that they waited.
function rated({cells, link}, trace) {
  if (!trace.meta?.rates) return trace;
  const {y, width, meta, name} = trace, {edges_us: edges} = cells, waits_s = [];
  const span = columnsOf(cells, link.range), length = lengthOf(cells, span);
  const counts = summed(cells, meta.tier, span);
  let r = 0;
  const customdata = y.map((low, k) => {
    let sum = 0, wait_s = 0;
    while (r < cells.rows && edges[r] < low * 1e6 * (1 - 1e-9)) r += 1;
    while (r < cells.rows && edges[r + 1] <= (low + width[k]) * 1e6 * (1 + 1e-9)) {
      wait_s += counts[r] * (edges[r] + edges[r + 1] - 0.001) / 2e6;
      sum += counts[r++];
    }
    waits_s.push(wait_s);
    return sum;
  });
  const x = (link.waited ? waits_s : customdata)
    .map((sum, k) => sum / Math.log2(1 + width[k] / y[k]) / length);
  const hovertext = y.map((low, k) => `${latency(low * 1e6)} to ${latency((low + width[k]) * 1e6)}`);
  const unit = link.waited ? WAIT_RATE : "I/O/s/octave";
  return {...trace, x, customdata, hovertext,
    hovertemplate: `${name}, %{hovertext}: %{x:.3g} ${unit}<br>%{customdata:,d} I/O<extra></extra>`};
}

// Where one tier is selected, the others stand back.
function apart({cells, link}, trace) {
  const {tier} = trace.meta ?? {}, isOther = cells?.tiers.has(link.tier) && tier !== link.tier;
  return isOther && (trace.type === "heatmap" || trace.meta?.rates) ? {...trace, opacity: 0.15} : trace;
}

function shaded(figure) {
  const {spec, link} = figure, found = detailed(figure).map(trace => apart(figure, rated(figure, trace)));
  const told = withTooltips(found, spec.about), drawn = link.waited ? told.map(waited) : told;
  return link.waited || figure.isExact ? rescaled(drawn, link.waited ? "s waited" : "I/O") : drawn;
}

const CONFIG = {
  responsive: true, displaylogo: false, scrollZoom: false, showTips: false,
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
  const {target, spec: {about}, link} = figure;
  const hasBar = target.clientWidth >= NARROW_PX;
  figure.narrow = isNarrow(figure);
  // A small screen has no words beside the bars, and no lines to them.
  const hasWords = !figure.narrow || isPrinting();
  const data = shaded(figure).filter(({meta}) => hasWords || !meta?.beside).map(painted);
  await Plotly.react(target, data, layoutOf(figure), {...CONFIG, displayModeBar: hasBar ? "hover" : false});
  const caption = target.closest("figure").querySelector("figcaption");
  figure.caption ??= caption.textContent.slice(about.cell?.length ?? 0);
  const note = link.waited && about.per ? waitedNote(about.per) : "";
  caption.textContent = figure.note + figure.caption + note;
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
    const {name, value} = control;
    control.checked = value === (kept()[`hsp-${name}`] ?? chosen(name));
    control.addEventListener("change", () => { kept()[`hsp-${name}`] = value; repaint(); });
  }
  document.documentElement.dataset.theme = chosen("theme", "auto");
  systemDark().addEventListener("change", repaint);
}

export const linked = link => [...figures.values()].filter(figure => figure.link === link);
