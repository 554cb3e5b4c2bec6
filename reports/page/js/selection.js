// What is selected in a phase: a range of time, a band of latency; its table, its address, its rows.
import {columnsOf, edgeOf, lengthOf, percentile, summed, totalOf} from "./cells.js";
import {draw, linked, redraw} from "./figure.js";
import {begin, figures} from "./library.js";
import {announce, element, latency, seconds, span} from "./page.js";
import {QUANTILES} from "./settings.js";

// As Plotly's doubleClickDelay, and a little more.
const DOUBLE_CLICK_MS = 320;

const counted = number => number.toLocaleString("en-US");

function tableOf({cells, ui, spec}, shown) {
  const length = lengthOf(cells, shown), all = new Float64Array(cells.rows), rows = [];
  const us = v => v === null ? "n too small" : latency(v);
  const row = (name, counts) => {
    const total = totalOf(counts), [first, last] = [counts.findIndex(Boolean), counts.findLastIndex(Boolean)];
    const texts = [counted(total), spec.about.histogram ? "-" : (total / length).toPrecision(3),
      total ? us(cells.edges_us[first]) : "-", ...QUANTILES.map(q => us(percentile(cells, counts, total, q))),
      total ? us(cells.edges_us[last + 1]) : "-"];
    rows.push(element("tr", {}, element("th", {scope: "row", textContent: name}),
      ...texts.map(text => element("td", {className: "n", textContent: text}))));
  };
  for (const tier of cells.tiers.keys()) {
    const counts = summed(cells, tier, shown);
    counts.forEach((n, r) => { all[r] += n; });
    row(spec.about.names[tier] ?? tier, counts);
  }
  if (cells.tiers.size > 1) row("all", all);
  ui.body.replaceChildren(...rows);
  return all;
}

// What lies in the band of latency, of the tier that is selected or of all: how many I/Os, which share, when.
function bandText({cells, link, spec}, all, shown) {
  const only = cells.tiers.get(link.tier), counts = only ? summed(cells, link.tier, shown) : all;
  // The bin of the longest I/O may end above it.
  const rows = [...all.keys()].filter(r =>
    cells.edges_us[r + 1] > link.band[0] * 1000001 && cells.edges_us[r] < link.band[1] * 999999);
  const count = totalOf(rows.map(r => counts[r])), total = totalOf(counts), inBand = new Set(rows);
  const columns = [];
  for (const {row, starts} of only ? [only] : cells.tiers.values()) {
    for (let c = shown[0]; c < shown[1]; c++) {
      for (let n = starts[c]; n < starts[c + 1]; n++) if (inBand.has(row[n])) { columns.push(c); break; }
    }
  }
  const [from, to] = [Math.min(...columns), Math.max(...columns) + 1].map(c => edgeOf(cells, c));
  const [low, high] = link.band.map(s => latency(s * 1e6));
  const whose = only ? `${counted(total)} of ${spec.about.names[link.tier] ?? link.tier}` : "all";
  const share = total ? (count / total * 100).toPrecision(3) : 0;
  return `${low} to ${high}: ${counted(count)} I/Os, ${share} % of ${whose}`
    + (count ? `, ${(count / lengthOf(cells, shown)).toPrecision(3)} per s, from ${span(from, to)}` : "");
}

// Writes the table of what is selected and the sentence above it.
export function tell(figure) {
  const {cells, ui, link, spec} = figure;
  if (!ui) return;
  const columns = columnsOf(cells, link.range), all = tableOf(figure, columns), total = totalOf(all);
  const [start, end] = columns.map(column => seconds(edgeOf(cells, column)));
  ui.summary.textContent = (spec.about.histogram ? `Percentiles of ${counted(total)} I/Os`
    : `${link.range ? "Selected" : "Whole phase"}: ${span(start, end)}, ${counted(total)} I/Os`)
    + (link.band ? `. ${bandText(figure, all, columns)}` : "");
  ui.from.value = start;
  ui.to.value = end;
}

// The address says what is selected and in view, and what the colours of the phase are.
function remember({name, range, band, tier, waited, exactly, view}) {
  const set = {...tier && {tier}, ...waited && {waited}, ...exactly && {exactly},
    ...view && {view: view.map(seconds).join("-")}};
  const options = new URLSearchParams(set).toString();
  const parts = [range && `:${range.map(seconds).join("-")}`,
    band && `@${band.map(v => Number((v * 1e6).toPrecision(6))).join("-")}`, options && `?${options}`];
  const text = parts.filter(Boolean).join(""), address = text && `#${encodeURIComponent(name)}${text}`;
  if (name) history.replaceState(null, "", location.pathname + location.search + address);
}

// Time waited (`waited`) or exact bins (`exactly`) in all maps of a phase, or no longer.
export function turn(link, name, isOn) {
  link[name] = isOn;
  const mine = linked(link);
  for (const {target} of mine) {
    const box = target.closest("figure").querySelector(`.controls input[name=${name}]`);
    if (box) box.checked = isOn;
  }
  remember(link);
  return redraw(mine);
}

// Selects [from, to] and a band of latency, in seconds, and a tier in all figures of a phase; null: all.
export function select(link, range, band = link.band, tier = null) {
  const mine = linked(link), panels = mine.filter(({ui}) => ui);
  const end = Math.max(...mine.map(({cells}) => cells ? edgeOf(cells, cells.columns) : 0));
  const [a, b] = (range ?? []).map(v => Math.max(0, Math.min(v, end))).sort((v, w) => v - w);
  link.range = b > a ? [a, b] : null;
  Object.assign(link, {band, tier});
  remember(link);
  for (const figure of panels) {
    tell(figure);
    if (link.range || band) figure.ui.panel.open = true;
  }
  announce(panels[0]?.ui.summary.textContent ?? "");
  return redraw(mine);
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

// The figure of this layer and op with all tiers.
function panelOf(link, layer, op) {
  const mine = linked(link);
  return mine.find(({ui, spec: {about}}) =>
    ui && about.layer === (layer ?? about.layer) && (!op || about.op.split(" + ").includes(op))) ?? mine[0];
}

// Around what is selected, in all figures of the phase; `figure` shows the band of latency, too.
function zoomToSelected(figure) {
  const {link, cells} = figure, {range, band} = link, [a, b] = range ?? [];
  const end = edgeOf(cells, cells.columns);
  const isLog = figure.spec.layout.yaxis.type === "log";
  figure.heights = isLog && band && [band[0] / 2, band[1] * 2].map(Math.log10);
  return zoom(link, range && [Math.max(0, 2 * a - b), Math.min(end, 2 * b - a)]);
}

// #PHASE:FROM-TO (seconds) and @LOW-HIGH (µs) select when the page is opened or the address changes; ?tier=,
// waited, exactly, view=FROM-TO, and zoom with layer= and op= where a finding leads.
export async function fromAddress(links) {
  const match = /^#(.+?)(?::([\d.]+)-([\d.]+))?(?:@([\d.]+)-([\d.]+))?(?:\?(.*))?$/.exec(location.hash);
  const link = match && links.get(decoded(match[1]));
  if (!link || !(match[2] || match[4] || match[6])) return;
  const [from, to, low, high] = match.slice(2, 6).map(Number), options = new URLSearchParams(match[6]);
  for (const name of ["waited", "exactly"]) if (options.has(name)) turn(link, name, true);
  const view = /^([\d.]+)-([\d.]+)$/.exec(options.get("view"));
  if (view) link.view = view.slice(1).map(Number);
  select(link, match[2] ? [from, to] : null, match[4] ? [low / 1e6, high / 1e6] : null, options.get("tier"));
  const figure = panelOf(link, options.get("layer"), options.get("op"));
  const fold = figure.target.closest("details.fold");
  if (fold) fold.open = true;
  figure.target.closest("figure").scrollIntoView({block: "center"});
  if (!options.has("zoom")) return;
  await begin(figure);
  await zoomToSelected(figure);
}

// All figures of a phase show [from, to]; null: all of it.
function zoom(link, view) {
  link.view = view;
  remember(link);
  return redraw(linked(link));
}

// Selects what was chosen on an axis of time. A panel of the first screen leads to the map of its phase.
export function choose(figure, axis, range, band) {
  const phase = figure.spec.about.panels?.[axis];
  const of = phase && [...figures.values()].find(({link}) => link.name === phase);
  const {link} = of || figure;
  select(link, range ?? link.range, band);
  if (!of) return;
  draw(figure);
  panelOf(link).target.closest("figure").scrollIntoView({block: "center"});
}

// What the mouse does in a figure: drag for a range, click for a band, zoom for all of its phase.
export function listen(figure) {
  const {target, link, spec} = figure;
  target.on("plotly_selected", event => {
    const [axis, range] = Object.entries(event?.range ?? {}).find(([name]) => name.startsWith("x")) ?? [];
    if (axis) choose(figure, axis, range.map(Number));
  });
  target.on("plotly_deselect", () => select(link, null));
  let waiting = null;
  target.on("plotly_click", ({event, points: [{data: {type, y, width, xaxis}, pointIndex: at}]}) => {
    clearTimeout(waiting);
    // The second click of two resets the axes.
    if (event.detail > 1) return;
    waiting = setTimeout(() => {
      if (type === "bar" && spec.about.per) select(link, link.range, [y[at], y[at] + width[at]]);
      if (type === "heatmap") choose(figure, xaxis, null, [y[at[0]], y[at[0] + 1]]);
    }, DOUBLE_CLICK_MS);
  });
  target.on("plotly_relayout", change => {
    const moved = name => Object.keys(change).some(key => key.startsWith(name));
    const shown = name => {
      const {range} = target.layout[name], isWhole = String(range) === String(spec.layout[name].range);
      return moved(`${name}.autorange`) || isWhole ? null : [...range];
    };
    if (moved("yaxis.")) figure.heights = shown("yaxis");
    if (moved("xaxis.")) zoom(link, shown("xaxis")); else if (moved("yaxis") || moved("xaxis")) draw(figure);
  });
}

export function rangePanel(figure) {
  const {cells, link, spec} = figure, end = edgeOf(cells, cells.columns);
  const number = label => element("input", {type: "number", min: 0, max: seconds(end),
    step: seconds(cells.width_s) || "any", "aria-label": `${label}, seconds since the phase began`});
  const ui = figure.ui = {summary: element("summary"), from: number("From"), to: number("To"),
    body: element("tbody")};
  const typed = () => select(link, [ui.from.valueAsNumber, ui.to.valueAsNumber]);
  ui.from.addEventListener("change", typed);
  ui.to.addEventListener("change", typed);
  const button = (label, work) => element("button", {type: "button", textContent: label, onclick: work});
  const controls = element("div", {className: "controls"}, element("label", {}, "From ", ui.from, " s"),
    element("label", {}, "to ", ui.to, " s"),
    button("Whole phase", () => {
      figure.heights = null;
      zoom(link, null);
      select(link, null, null);
    }),
    button("Zoom to it", () => zoom(link, link.range)));
  const heads = ["Tier", "I/Os", "I/O/s", "From", ...QUANTILES.map(q => q.name), "To"]
    .map((h, n) => element("th", {textContent: h, className: n ? "n" : ""}));
  ui.panel = element("details", {className: "range"}, ui.summary, ...(spec.about.histogram ? [] : [controls]),
    element("div", {className: "table", tabIndex: 0, role: "group", "aria-label": "Selected range"},
      element("table", {}, element("thead", {}, element("tr", {}, ...heads)), ui.body)));
  return ui.panel;
}
