// The range of time that is selected: its table, and the rows that are saved as CSV.
import {overTime, percentile, summed, totalOf, windowOf} from "./cells.js";
import {draw} from "./figure.js";
import {begin} from "./library.js";
import {element, latency, seconds} from "./page.js";
import {QUANTILES} from "./settings.js";
import {LINES, columnsOf, lengthOf} from "./traces.js";

function tableOf(state) {
  const {cells} = state, span = columnsOf(state), length = lengthOf(state, span);
  const groups = [...state.tiers].map(t => [t, [t]]);
  if (groups.length > 1) groups.push(["all shown", [...state.tiers]]);
  return groups.map(([name, tiers]) => {
    const counts = summed(cells, tiers, ...span), total = totalOf(counts);
    const first = counts.findIndex(n => n > 0), last = counts.findLastIndex(n => n > 0);
    return {name, total, rate: total / length, low: total ? cells.edges_us[first] : null,
      percentiles: QUANTILES.map(quantile => percentile(cells, counts, total, quantile)),
      high: total ? cells.edges_us[last + 1] : null};
  });
}

// Writes the table of the range and what stands above it.
export function tell(state) {
  const {cells, ui, spec} = state, [a, b] = columnsOf(state), rows = tableOf(state);
  const start = seconds(a * cells.width_s), total = rows.length ? rows.at(-1).total : 0;
  const end = seconds(Math.min(b * cells.width_s, Math.max(cells.duration_s, a * cells.width_s)));
  ui.summary.textContent = spec.histogram ? `Percentiles of ${total} I/Os`
    : `${state.range ? "Selected" : "Whole phase"}: ${start} to ${end} s, ${total} I/Os`;
  ui.from.value = start;
  ui.to.value = seconds(b * cells.width_s);
  const us = v => v === null ? "n too small" : latency(v, 3), edge = v => v === null ? "-" : us(v);
  ui.body.replaceChildren(...rows.map(r => {
    const texts = [String(r.total), spec.histogram ? "-" : r.rate.toPrecision(3), edge(r.low),
      ...r.percentiles.map(us), edge(r.high)];
    return element("tr", {}, element("th", {scope: "row", textContent: r.name}),
      ...texts.map(text => element("td", {className: "n", textContent: text})));
  }));
}

// Selects [from, to] in seconds; null selects the whole phase.
export async function choose(state, range) {
  const {cells} = state, end = cells.columns * cells.width_s;
  state.range = null;
  if (range) {
    const [a, b] = [Math.min(...range), Math.max(...range)].map(v => Math.max(0, Math.min(v, end)));
    if (Number.isFinite(a) && Number.isFinite(b) && b > a) state.range = [a, b];
  }
  tell(state);
  await draw(state);
}

function percentilesOf(state) {
  const {cells, spec} = state, width = state.window || windowOf(cells, state.tiers);
  const {lines: curves} = overTime(cells, state.tiers, width, LINES), [first, last] = columnsOf(state);
  const head = ["figure", "phase", "layer", "op", "tiers", "from_s", "to_s"];
  const rows = [[...head, ...LINES.map(q => `${q.name}_us`)]];
  const about = [spec.title, spec.phase, spec.layer, spec.op, [...state.tiers].join(" + ")];
  // Two points of a line are the ends of one window.
  for (let n = 0; 2 * n < curves[0].length; n++) {
    const from = n * width, to = Math.min(from + width, cells.columns);
    // Empty where the sample is too small.
    if (from < last && to > first) {
      rows.push([...about, seconds(from * cells.width_s), seconds(to * cells.width_s),
        ...curves.map(line => line[2 * n])]);
    }
  }
  return rows;
}

// The numbers of the range, a header first.
export function rowsOf(state) {
  const {cells, spec} = state, [first, last] = columnsOf(state);
  if (spec.lines) return percentilesOf(state);
  const rows = [["figure", "phase", "layer", "op", "tier", "from_s", "to_s", "lo_us", "hi_us", "count"]];
  for (const tier of state.tiers) {
    const {row, count, starts} = cells.tiers.get(tier);
    for (let c = first; c < last; c++) {
      const times = spec.histogram ? ["", ""] : [c, c + 1].map(edge => seconds(edge * cells.width_s));
      for (let n = starts[c]; n < starts[c + 1]; n++) {
        rows.push([spec.title, spec.phase, spec.layer, spec.op, tier, ...times,
          cells.edges_us[row[n]], cells.edges_us[row[n] + 1], count[n]]);
      }
    }
  }
  return rows;
}

export function rangePanel(state) {
  const {cells, target} = state, end = cells.columns * cells.width_s;
  const number = label => element("input", {type: "number", min: 0, max: seconds(end),
    step: seconds(cells.width_s) || "any", "aria-label": `${label}, seconds since the phase began`});
  const ui = state.ui = {summary: element("summary", {"aria-live": "polite"}), from: number("From"),
    to: number("To"), body: element("tbody")};
  const typed = () => choose(state, [ui.from.valueAsNumber, ui.to.valueAsNumber]);
  ui.from.addEventListener("change", typed);
  ui.to.addEventListener("change", typed);
  const button = (label, work) => element("button", {type: "button", textContent: label, onclick: work});
  const whole = () => { state.view = state.viewY = null; choose(state, null); };
  const zoom = async () => {
    await begin(target);
    await Plotly.relayout(target, {"xaxis2.range": columnsOf(state).map(c => c * cells.width_s)});
  };
  const heads = ["Tier", "I/Os", "I/O/s", "From", ...QUANTILES.map(q => q.name), "To"]
    .map((h, n) => element("th", {textContent: h, className: n ? "n" : ""}));
  const controls = element("div", {className: "controls"}, element("span", {className: "group"},
    element("label", {}, "From ", ui.from, " s"), element("label", {}, "to ", ui.to, " s"),
    button("Whole phase", whole), button("Zoom to it", zoom)));
  ui.panel = element("details", {className: "range"}, ui.summary, ...(state.spec.histogram ? [] : [controls]),
    element("div", {className: "table"}, element("table", {},
      element("thead", {}, element("tr", {}, ...heads)), ui.body)));
  return ui.panel;
}
