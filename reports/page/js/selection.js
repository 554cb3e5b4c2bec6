// What is selected in a phase: a range of time, a band of latency; its table, its address, its rows.
import {lengthOf, percentile, summed, totalOf} from "./cells.js";
import {draw, layoutOf, linked} from "./figure.js";
import {figures} from "./library.js";
import {announce, element, latency, seconds} from "./page.js";
import {QUANTILES} from "./settings.js";

// The columns [first, last) of the range that is selected; all where none is.
export function columnsOf({cells, link}) {
  if (!link.range) return [0, cells.columns];
  const [a, b] = link.range.map(v => v / cells.width_s);
  return [Math.max(0, Math.min(Math.floor(a + 1e-9), cells.columns - 1)),
    Math.max(1, Math.min(Math.ceil(b - 1e-9), cells.columns))];
}

function tableOf({cells, ui, spec}, span) {
  const length = lengthOf(cells, span), all = new Float64Array(cells.rows), rows = [];
  const us = v => v === null ? "n too small" : latency(v);
  const row = (name, counts) => {
    const total = totalOf(counts), first = counts.findIndex(n => n > 0), last = counts.findLastIndex(n => n > 0);
    const texts = [String(total), spec.about.histogram ? "-" : (total / length).toPrecision(3),
      total ? us(cells.edges_us[first]) : "-", ...QUANTILES.map(q => us(percentile(cells, counts, total, q))),
      total ? us(cells.edges_us[last + 1]) : "-"];
    rows.push(element("tr", {}, element("th", {scope: "row", textContent: name}),
      ...texts.map(text => element("td", {className: "n", textContent: text}))));
  };
  for (const tier of cells.tiers.keys()) {
    const counts = summed(cells, tier, span);
    counts.forEach((n, r) => { all[r] += n; });
    row(tier, counts);
  }
  if (cells.tiers.size > 1) row("all", all);
  ui.body.replaceChildren(...rows);
  return all;
}

// What lies in the band of latency: how many I/Os, which share, how often, when.
function bandText({cells, link}, all, span) {
  const rows = [...all.keys()].filter(r =>
    cells.edges_us[r] >= link.band[0] * 999999 && cells.edges_us[r + 1] <= link.band[1] * 1000001);
  const count = totalOf(rows.map(r => all[r])), total = totalOf(all), inBand = new Set(rows);
  const columns = [];
  for (const {row, starts} of cells.tiers.values()) {
    for (let c = span[0]; c < span[1]; c++) {
      for (let n = starts[c]; n < starts[c + 1]; n++) if (inBand.has(row[n])) { columns.push(c); break; }
    }
  }
  const [from, to] = [Math.min(...columns), Math.max(...columns) + 1].map(c => seconds(c * cells.width_s));
  const [low, high] = link.band.map(s => latency(s * 1e6));
  return `${low} to ${high}: ${count} I/Os, ${total ? (count / total * 100).toPrecision(3) : 0} % of all`
    + (count ? `, ${(count / lengthOf(cells, span)).toPrecision(3)} per s, between ${from} and ${to} s` : "");
}

// Writes the table of what is selected and the sentence above it.
export function tell(figure) {
  const {cells, ui, link, spec} = figure;
  if (!ui) return;
  const span = columnsOf(figure), all = tableOf(figure, span), total = totalOf(all);
  const [start, end] = [span[0] * cells.width_s, Math.min(span[1] * cells.width_s, cells.duration_s)].map(seconds);
  ui.summary.textContent = (spec.about.histogram ? `Percentiles of ${total} I/Os`
    : `${link.range ? "Selected" : "Whole phase"}: ${start} to ${end} s, ${total} I/Os`)
    + (link.band ? `. ${bandText(figure, all, span)}` : "");
  ui.from.value = start;
  ui.to.value = seconds(span[1] * cells.width_s);
}

// The rates at the left are those of the selected range.
function ratesOf({cells, spec, link, target}, span) {
  const length = lengthOf(cells, span), edges = cells.edges_us;
  const indices = target.data.flatMap((trace, n) => trace.meta?.rates ? [n] : []);
  const x = indices.map(n => {
    const trace = spec.data[n], counts = summed(cells, trace.meta.tier, span), {y, width, x: whole} = trace;
    let r = 0;
    return !link.range ? whole : y.map((low, k) => {
      let sum = 0;
      const [from, to] = [low * 1e6, (low + width[k]) * 1e6];
      while (r < cells.rows && edges[r] < from * (1 - 1e-9)) r += 1;
      while (r < cells.rows && edges[r + 1] <= to * (1 + 1e-9)) { sum += counts[r]; r += 1; }
      return sum / Math.log2(to / from) / length;
    });
  });
  return [x, indices];
}

async function show(figure) {
  tell(figure);
  if (!figure.begun) return;
  await figure.begun;
  const {target, cells, spec} = figure;
  const [x, indices] = cells && spec.about.panel ? ratesOf(figure, columnsOf(figure)) : [[], []];
  if (indices.length) Plotly.restyle(target, {x}, indices);
  await Plotly.relayout(target, {shapes: layoutOf(figure).shapes, selections: []});
}

// Selects [from, to] in seconds and a band of latency in seconds, in all figures of a phase; null: all.
export async function select(link, range, band = link.band) {
  const mine = [...figures.values()].filter(figure => figure.link === link);
  const end = Math.max(...mine.map(({cells}) => cells ? cells.columns * cells.width_s : 0));
  link.range = null;
  if (range) {
    const [a, b] = [Math.min(...range), Math.max(...range)].map(v => Math.max(0, Math.min(v, end)));
    if (Number.isFinite(a) && Number.isFinite(b) && b > a) link.range = [a, b];
  }
  link.band = band;
  const address = link.range ? `#${link.name}:${link.range.map(seconds).join("-")}` : location.pathname;
  if (link.name) history.replaceState(null, "", address);
  await Promise.all(mine.map(show));
  const told = mine.find(({ui}) => ui)?.ui.summary.textContent;
  if (told) announce(told);
}

// #PHASE:FROM-TO selects a range of time when the page is opened or the address changes.
export function fromAddress(links) {
  const match = /^#([^:]+):([\d.]+)-([\d.]+)$/.exec(decodeURIComponent(location.hash));
  const link = match && links.get(match[1]);
  if (!link) return;
  select(link, [Number(match[2]), Number(match[3])]);
  const first = [...figures.values()].find(figure => figure.link === link);
  first?.target.closest("figure").scrollIntoView({block: "center"});
}

// What the mouse does in a figure: drag for a range, click for a band, zoom for all of its phase.
export function listen(figure) {
  const {target, link, spec} = figure;
  target.on("plotly_selected", event => {
    const range = event?.range?.x;
    if (!range) return;
    for (const {ui} of linked(figure)) if (ui) ui.panel.open = true;
    select(link, range.map(Number));
  });
  target.on("plotly_deselect", () => select(link, null));
  target.on("plotly_click", ({points: [point]}) => {
    const {type, y, width} = point.data;
    if (type === "bar") select(link, link.range, [y[point.pointIndex], y[point.pointIndex] + width[point.pointIndex]]);
    if (type === "heatmap") select(link, link.range, [0, 1].map(n => y[point.pointIndex[0] + n]));
    for (const {ui} of linked(figure)) if (ui) ui.panel.open = true;
  });
  target.on("plotly_relayout", change => {
    const moved = name => Object.keys(change).some(key => key.startsWith(name));
    if (!moved("xaxis.") && !moved("yaxis.")) return;
    if (moved("xaxis.")) {
      const range = [...target.layout.xaxis.range];
      const isWhole = moved("xaxis.autorange") || String(range) === String(spec.layout.xaxis.range);
      link.view = isWhole ? null : range;
      if (link.name) for (const other of linked(figure)) if (other !== figure) other.again();
    }
    figure.isZoomed = link.view !== null
      || String(target.layout.yaxis.range) !== String(spec.layout.yaxis.range);
    if (figure.cells && (figure.isZoomed || figure.isExact)) draw(figure);
  });
}

export function rangePanel(figure) {
  const {cells, link, spec} = figure, end = cells.columns * cells.width_s;
  const number = label => element("input", {type: "number", min: 0, max: seconds(end),
    step: seconds(cells.width_s) || "any", "aria-label": `${label}, seconds since the phase began`});
  const ui = figure.ui = {summary: element("summary"), from: number("From"), to: number("To"),
    body: element("tbody")};
  const typed = () => select(link, [ui.from.valueAsNumber, ui.to.valueAsNumber]);
  ui.from.addEventListener("change", typed);
  ui.to.addEventListener("change", typed);
  const button = (label, work) => element("button", {type: "button", textContent: label, onclick: work});
  const zoom = to => { link.view = to; for (const other of linked(figure)) { other.isZoomed = to !== null; other.again(); } };
  const controls = element("div", {className: "controls"}, element("label", {}, "From ", ui.from, " s"),
    element("label", {}, "to ", ui.to, " s"),
    button("Whole phase", () => { zoom(null); select(link, null, null); }),
    button("Zoom to it", () => zoom(link.range)));
  const heads = ["Tier", "I/Os", "I/O/s", "From", ...QUANTILES.map(q => q.name), "To"]
    .map((h, n) => element("th", {textContent: h, className: n ? "n" : ""}));
  ui.panel = element("details", {className: "range"}, ui.summary, ...(spec.about.histogram ? [] : [controls]),
    element("div", {className: "table", tabIndex: 0, role: "region", "aria-label": "Selected range"},
      element("table", {}, element("thead", {}, element("tr", {}, ...heads)), ui.body)));
  return ui.panel;
}
