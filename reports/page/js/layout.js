// The axes of a heat map or histogram, its title, legend and shapes.
import {usedRows} from "./cells.js";
import {latency} from "./page.js";
import {columnsOf} from "./traces.js";

// What a drawing of the figure begins with; the latencies that its axis goes from and to.
export function measure(state) {
  const {spec, cells, target} = state, {tiers} = state;
  state.narrow = target.clientWidth < 560;
  const isAll = tiers.size === cells.tiers.size && tiers.size > 1;
  state.shown = isAll ? "all tiers" : [...tiers].join(" + ");
  state.rows = usedRows(cells, tiers);
  if (state.scale === "log") return [spec.log.low_us, spec.log.high_us];
  while (state.rows[1] > state.rows[0] && cells.edges_us[state.rows[1] - 1] >= spec.top_us) state.rows[1]--;
  return [0, spec.top_us];
}

function latencyAxis(state, bounds) {
  const {spec} = state, steps = [0, 1, 2, 3, 4, 5].map(n => spec.top_us * n / 5);
  if (state.scale === "log") {
    return {type: "log", range: state.viewY || bounds.map(Math.log10), minor: {ticks: "outside", dtick: "D1"},
      tickvals: spec.log.ticks.map(t => t[0]), ticktext: spec.log.ticks.map(t => t[1])};
  }
  return {type: "linear", range: state.viewY || bounds, tickvals: steps,
    ticktext: steps.map(v => v ? latency(v, 3) : "0")};
}

// The published range as lines, and the range of time that is selected as a box.
function shapes(state, colours) {
  const {spec, cells} = state;
  const made = spec.published.filter(v => v > 0).map(v => ({type: "line", xref: "x2 domain", yref: "y", x0: 0,
    x1: 1, y0: v, y1: v, line: {color: colours.published, dash: "dash", width: 1.5}}));
  if (state.range) {
    const [a, b] = columnsOf(state);
    made.push({type: "rect", xref: "x2", yref: "paper", x0: a * cells.width_s, x1: b * cells.width_s, y0: 0,
      y1: 1, fillcolor: colours.bars, opacity: 0.13, line: {width: 1, color: colours.bars}, layer: "above"});
  }
  return made;
}

function timeAxes(state, axis) {
  const {spec, cells, narrow} = state;
  if (spec.histogram) {
    const counts = {anchor: "y", rangemode: "tozero", nticks: narrow ? 4 : 0, title: {text: "I/O per bin"}};
    return {xaxis: {...axis, ...counts}, xaxis2: {visible: false}};
  }
  return {
    xaxis: {...axis, visible: !spec.lines, domain: [0, 0.13], autorange: "reversed", rangemode: "tozero",
      nticks: narrow ? 2 : 3, title: {text: "I/O/s"}, tickangle: 0, fixedrange: true},
    xaxis2: {...axis, domain: [spec.lines ? 0 : narrow ? 0.19 : 0.16, 1], anchor: "y",
      range: state.view || [0, cells.columns * cells.width_s],
      title: {text: narrow ? "time (s)" : "time since the phase began (s)"}, nticks: narrow ? 4 : 0},
  };
}

export function layout(state, colours, bounds) {
  const {spec, cells, narrow} = state, log = state.scale === "log";
  const axis = {gridcolor: colours.grid, linecolor: colours.rule, zeroline: false, ticks: "outside",
    tickcolor: colours.rule, showline: true};
  const legend = state.byTier || cells.gaps.length || state.lines || (state.events && cells.events.length);
  const title = narrow ? spec.title.match(/.{1,34}(?:\s|$)|.{1,34}/g).slice(0, 3).join("<br>") : spec.title;
  return {
    template: {}, height: spec.height, autosize: true, showlegend: Boolean(legend), bargap: 0,
    barmode: "overlay", hovermode: "closest", dragmode: state.drag, selectdirection: "h", uirevision: "kept",
    title: {text: `${title}<br><span style="font-size:12px">${spec.load}${spec.mark}</span>`, x: 0,
      xref: "paper", y: 1, yref: "container", yanchor: "top", pad: {t: 22}, font: {size: narrow ? 14 : 16}},
    margin: narrow ? {l: 54, r: 8, t: 96, b: legend ? 104 : 54} : {l: 74, r: 10, t: 82, b: 54},
    font: {family: "system-ui, sans-serif", size: narrow ? 11 : 12, color: colours.ink},
    paper_bgcolor: colours.paper, plot_bgcolor: colours.paper, shapes: shapes(state, colours),
    newselection: {line: {color: colours.bars}},
    legend: narrow ? {orientation: "h", x: 0, y: 0, yref: "container", yanchor: "bottom", font: {size: 10}}
      : {orientation: "h", x: 1, xanchor: "right", y: 1, yanchor: "bottom"},
    annotations: spec.published.filter(v => v > 0 && !narrow).map(v => ({xref: "x2 domain", yref: "y", x: 1,
      y: log ? Math.log10(v) : v, xanchor: "right", yanchor: "bottom", showarrow: false, text: latency(v, 3),
      font: {color: colours.mark, size: 11}})),
    ...timeAxes(state, axis),
    yaxis: {...axis, ...latencyAxis(state, bounds), uirevision: state.scale,
      title: narrow ? undefined : {text: "latency", standoff: 6}},
  };
}
