// What lies around the picture of a heat map: bars, legend, percentiles, events. Text from the run reaches
// the page through textContent and through what Python has made plain only.
import {overTime, percentile, summed, totalOf, windowOf} from "./cells.js";
import {hue, shadeScale, ticksOf} from "./colours.js";
import {latency, seconds, theme} from "./page.js";
import {PALETTE, QUANTILES} from "./settings.js";

// Those that are drawn; a figure has no place for a fourth line.
export const LINES = QUANTILES.slice(0, 3);
const DASHES = ["solid", "dash", "dot"];
const EVENT_DASHES = ["dot", "dash", "dashdot", "longdash", "longdashdot", "solid"];

// The columns [first, last) of the range that is selected; all where none is.
export function columnsOf(state) {
  const {cells, range} = state;
  if (!range) return [0, cells.columns];
  const first = Math.floor(range[0] / cells.width_s + 1e-9);
  const last = Math.ceil(range[1] / cells.width_s - 1e-9);
  return [Math.max(0, Math.min(first, cells.columns - 1)), Math.max(1, Math.min(last, cells.columns))];
}

// How long these columns took, in seconds: the last one may be cut off by the end of the phase.
export function lengthOf(state, [first, last]) {
  const {cells} = state;
  const end = Math.min(last * cells.width_s, cells.duration_s);
  return Math.max(end - first * cells.width_s, cells.width_s * 1e-3);
}

export function bars(state, tiers, name, colour) {
  const {cells} = state, span = columnsOf(state), length = lengthOf(state, span);
  const counts = summed(cells, tiers, ...span), [r0, r1] = state.rows, {histogram} = state.spec;
  const low = cells.edges_us.slice(r0, r1), high = cells.edges_us.slice(r0 + 1, r1 + 1);
  // A histogram has the I/Os themselves: it is of one interval, however long that was.
  const per = histogram ? 1 : length, unit = histogram ? "%{x} I/O" : "%{x:.3g} I/O/s";
  return {type: "bar", orientation: "h", name, showlegend: false, base: 0, offset: 0, xaxis: "x", yaxis: "y",
    x: Array.from(counts.subarray(r0, r1), n => n / per), y: low, width: high.map((v, n) => v - low[n]),
    customdata: high, opacity: state.byTier ? 0.8 : 1,
    marker: {color: colour, line: {width: histogram && r1 - r0 < 60 ? 0.6 : 0, color: theme().paper}},
    hovertemplate: `%{y:.4g} to %{customdata:.4g} µs: ${unit}<extra></extra>`};
}

// What stands for the picture in the legend and in the colour bar.
export function keys(state, colours) {
  const key = {type: "scatter", mode: "markers", x: [null], y: [null], xaxis: "x2", yaxis: "y",
    hoverinfo: "skip"};
  const square = (name, color) => ({...key, name, showlegend: true,
    marker: {symbol: "square", size: 11, color}});
  const gaps = state.cells.gaps.length && !state.spec.histogram;
  const made = gaps ? [square("nothing recorded", colours.gap)] : [];
  if (state.byTier) return [...made, ...[...state.tiers].map(t => square(t, hue(t, colours)[1]))];
  if (state.spec.lines || state.spec.histogram || !state.tiers.size) return made;
  return [...made, {...key, name: "I/O per cell", showlegend: false,
    marker: {color: [0], cmin: 0, cmax: state.top, showscale: !state.narrow, colorscale: shadeScale(),
      colorbar: {title: {text: "I/O per cell", side: "right"}, thickness: 12, outlinewidth: 0, x: 1.02,
        ...ticksOf(0, state.top)}}}];
}

// The percentiles of a histogram, from its left to its right.
function levels(state, colours) {
  const {cells, tiers} = state, counts = summed(cells, tiers, 0, cells.columns), total = totalOf(counts);
  const top = counts.reduce((a, b) => Math.max(a, b), 0);
  return LINES.map((quantile, n) => [quantile.name, DASHES[n], percentile(cells, counts, total, quantile)])
    .filter(([, , value]) => value !== null)
    .map(([name, dash, value]) => ({type: "scatter", mode: "lines", name,
      x: [0, top], y: [value, value], xaxis: "x", yaxis: "y", showlegend: true,
      line: {color: colours.ink, width: 1.7, dash},
      hovertemplate: `${name}: ${latency(value)}<extra></extra>`}));
}

export function lines(state, colours) {
  if (!state.lines || !state.tiers.size) return [];
  if (state.spec.histogram) return levels(state, colours);
  const {cells, spec} = state, width = state.window || windowOf(cells, state.tiers);
  const {times, lines: curves} = overTime(cells, state.tiers, width, LINES);
  // A point between two gaps has no line to be seen by; marks at thousands of them would be slow.
  const isAlone = (y, n) => y[n] !== null && (y[n - 1] ?? null) === null && (y[n + 1] ?? null) === null;
  const alone = y => y.map((_, n) => (isAlone(y, n) ? 5 : 0));
  const marked = times.length <= 150;
  const mode = y => (marked || alone(y).some(Boolean) ? "lines+markers" : "lines");
  const size = y => (marked ? 4 : alone(y));
  const under = spec.lines ? [] : curves.map((y, n) => ({y, showlegend: false, hoverinfo: "skip",
    mode: "lines", legendgroup: LINES[n].name, line: {color: colours.paper, width: 4}}));
  const over = curves.map((y, n) => ({y, mode: mode(y), showlegend: true, legendgroup: LINES[n].name,
    line: {color: colours.ink, width: 1.7, dash: DASHES[n]},
    marker: {color: colours.ink, size: size(y), line: {width: 0}},
    customdata: y.map(v => v === null ? "" : latency(v)),
    hovertemplate: `${LINES[n].name} at %{x:.4g} s: %{customdata}<extra></extra>`}));
  return [...under, ...over].map((line, n) => ({type: "scatter", name: LINES[n % LINES.length].name, x: times,
    connectgaps: false, xaxis: "x2", yaxis: "y",
    selected: {marker: {opacity: 1}}, unselected: {marker: {opacity: 1}}, ...line}));
}

// A line per event; what has a length is a frame from its beginning to its end.
export function events(state, [bottom, high]) {
  if (!state.events || state.spec.histogram) return [];
  const kinds = [...new Set(state.cells.events.map(e => e.kind))];
  const log = state.scale === "log";
  return kinds.map((kind, n) => {
    const x = [], y = [], text = [], mine = state.cells.events.filter(e => e.kind === kind);
    // Many of a kind would be a fence in front of the map: they are short marks at its top.
    const short = log ? high * (bottom / high) ** 0.05 : high - (high - bottom) * 0.05;
    const low = mine.length <= 12 || kind === "fault" ? bottom : short;
    for (const e of mine) {
      const until = e.to_s === null ? "" : ` to ${seconds(e.to_s)} s`;
      const words = `${seconds(e.from_s)} s${until}: ${e.text || kind}`;
      const path = e.to_s === null || e.to_s <= e.from_s ? [[e.from_s, low], [e.from_s, high]]
        : [[e.from_s, low], [e.from_s, high], [e.to_s, high], [e.to_s, low]];
      for (const [a, b] of path) { x.push(a); y.push(b); text.push(words); }
      x.push(null); y.push(null); text.push("");
    }
    // A fault is what a reader looks for first: always a whole line, in a colour that no other event has.
    const line = kind === "fault" ? {color: PALETTE.fault, width: 2.2, dash: "solid"}
      : {color: PALETTE.events[n % PALETTE.events.length], width: 1.4,
        dash: EVENT_DASHES[n % EVENT_DASHES.length]};
    return {type: "scatter", mode: "lines", name: kind, x, y, text, xaxis: "x2", yaxis: "y", showlegend: true,
      hovertemplate: "%{text}<extra>" + kind + "</extra>", connectgaps: false, line};
  });
}
