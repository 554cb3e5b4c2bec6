// What a cell of a heat map says: its tier, its I/Os, its ranges, its part of all I/Os of these seconds.
import {latency, span} from "./page.js";
import {matrixRows} from "./shading.js";

const percent = (part, all) => `${Number((100 * part / all).toPrecision(3))} %`;
const number = n => Number.isInteger(n) ? n.toLocaleString("en-US") : String(Number(n.toPrecision(3)));

// The time of day (UTC) after so many seconds, where the source has one.
function utc({clock_ms: origin_ms}, time_s) {
  if (origin_ms === undefined) return "";
  return ` (${new Date(origin_ms + time_s * 1000).toISOString().slice(11, 19)} UTC)`;
}

function words(maps, map, r, c, about) {
  const {name, x, y, counts, meta} = map, high = y[r + 1];
  let all = 0, below = 0;
  for (const other of maps) {
    for (let k = 0; k < other.counts.length; k++) {
      all += other.counts[k][c];
      if (other.y[k + 1] <= high * (1 + 1e-9)) below += other.counts[k][c];
    }
  }
  const count = counts[r][c], waited = latency(count * meta.wait_s[r] * 1e6);
  const [from, to, end] = [x[c], x[c + 1], latency(high * 1e6)];
  return [`${name}: ${number(count)} I/O, ${waited} waited`,
    `${span(from, to)}${utc(about, from)}, ${latency(y[r] * 1e6)} to ${end}`,
    `${percent(count, all)} of the column, ${percent(below, all)} up to ${end}`].join("<br>");
}

// The traces, whose cells say so. A text is made when Plotly asks for it: a map has a hundred thousand cells.
export function withTooltips(traces, about) {
  const panels = {};
  for (const {type, meta, xaxis, yaxis, name, x, y, customdata} of traces) {
    if (type !== "heatmap" || !meta.wait_s) continue;
    (panels[xaxis + yaxis] ??= []).push({name, x, y, meta, counts: matrixRows(customdata)});
  }
  return traces.map(trace => {
    const maps = panels[trace.xaxis + trace.yaxis] ?? [], map = maps.find(({meta}) => meta === trace.meta);
    if (!map) return trace;
    const text = map.counts.map((_, r) => new Proxy([], {get: (row, c) =>
      typeof c === "string" && /^\d+$/.test(c) ? words(maps, map, r, Number(c), about) : row[c]}));
    return {...trace, text, hovertemplate: "%{text}<extra></extra>"};
  });
}
