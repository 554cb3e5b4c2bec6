// A figure that Python has made whole, in the colours of the page. Its heat maps are filled here.
import {largest, matrix} from "./cells.js";
import {
  LEAST_SPAN, differenceScale, shadeOf, shadeOfDifference, shadeScale, ticksOf, ticksOfDifference,
} from "./colours.js";
import {downloads} from "./downloads.js";
import {element, theme} from "./page.js";
import {figures, plot} from "./library.js";

const isDifference = ({meta}) => Object.values(meta.weights).some(weight => weight < 0);

// The trace with the values of its cells: x in seconds, y in microseconds, customdata in I/Os.
function filled(trace, cells) {
  const {weights} = trace.meta, {columns, width_s, edges_us} = cells;
  const values = matrix(cells, Object.entries(weights), [0, cells.rows], 0, columns, 1);
  const shade = isDifference(trace) ? shadeOfDifference : shadeOf;
  return {...trace, x: Array.from({length: columns + 1}, (_, n) => n * width_s), y: edges_us,
    z: values.map(line => line.map(shade)), customdata: values.map(line => Array.from(line)),
    most: largest(values)};
}

// All heat maps of a figure have one scale of colours; those of a difference have their own.
function fillAll(data, blocks) {
  const maps = data.map(t => t.type === "heatmap" ? filled(t, blocks[t.meta.block]) : t);
  const counts = maps.filter(t => t.type === "heatmap" && !isDifference(t));
  // From one I/O on, or from one I/O in one of the runs that are averaged.
  const low = Math.min(...counts.map(t => shadeOf(Math.min(...Object.values(t.meta.weights)))));
  const top = Math.max(low + LEAST_SPAN, ...counts.map(t => shadeOf(t.most)));
  return maps.map(({most, ...t}) => {
    if (t.type !== "heatmap") return t;
    const end = Math.sqrt(most || 1), scale = isDifference(t)
      ? {zmin: -end, zmax: end, ticks: ticksOfDifference(most || 1)}
      : {zmin: low, zmax: top, ticks: ticksOf(low, top)};
    return {...t, zmin: scale.zmin, zmax: scale.zmax, colorbar: {...t.colorbar, ...scale.ticks}};
  });
}

function painted(trace, colours) {
  if (trace.type === "heatmap") {
    return {...trace, colorscale: isDifference(trace) ? differenceScale() : shadeScale()};
  }
  const drawn = {...trace, textfont: {...trace.textfont, color: colours.ink}};
  if (trace.meta !== "ours") return drawn;
  const {bars} = colours, {marker} = trace;
  return {...drawn, marker: {...marker, color: bars, line: {...marker.line, color: bars}}};
}

export function still(target, spec, blocks) {
  const {layout: base} = spec.figure;
  let data = null;
  if (spec.csv.length) {
    target.closest("figure").prepend(
      element("div", {className: "controls"}, downloads(target, spec.title, () => spec.csv)));
  }
  const draw = () => {
    data ??= fillAll(spec.figure.data, blocks);
    const colours = theme(), axis = {gridcolor: colours.grid, linecolor: colours.rule};
    const layout = {...base, font: {...base.font, color: colours.ink}, paper_bgcolor: colours.paper,
      plot_bgcolor: colours.paper};
    for (const name of Object.keys(base).filter(key => /^[xy]axis\d*$/.test(key))) {
      layout[name] = {...base[name], ...axis};
    }
    return plot(target, data.map(t => painted(t, colours)), layout, ["select2d", "lasso2d", "autoScale2d"]);
  };
  figures.set(target, {first: draw, again: draw});
}
