// The cells of a figure as one picture that lies in its axes: Plotly's own heat map takes seconds for an
// hour of them.
import {largest, matrix} from "./cells.js";
import {LEAST_SPAN, hue, shadeOf, shades} from "./colours.js";
import {element} from "./page.js";

export const COLUMNS = 1200;

// Columns are added up where there are more than the screen has pixels; the part in view is drawn in full.
function visibleColumns(state) {
  const {cells, view} = state;
  let [c0, c1] = [0, cells.columns];
  if (view && cells.columns > COLUMNS) {
    const a = view[0] / cells.width_s, b = view[1] / cells.width_s, room = (b - a) / 2;
    c0 = Math.max(0, Math.min(Math.floor(a - room), cells.columns - 1));
    c1 = Math.max(c0 + 1, Math.min(Math.ceil(b + room), cells.columns));
  }
  const merge = Math.max(1, Math.ceil((c1 - c0) / COLUMNS));
  return [c0 - c0 % merge, c1, merge];
}

function coloured(scale) {
  const canvas = element("canvas", {width: 256, height: 1}), context = canvas.getContext("2d");
  const gradient = context.createLinearGradient(0, 0, 256, 0);
  scale.forEach((colour, n) => gradient.addColorStop(n / (scale.length - 1), colour));
  context.fillStyle = gradient;
  context.fillRect(0, 0, 256, 1);
  return new Uint32Array(context.getImageData(0, 0, 256, 1).data.buffer);
}

// Intervals for which the store has nothing are grey from top to bottom, unlike a count of zero.
export function picture(state, colours, bounds) {
  const {cells, spec} = state, [c0, c1, merge] = visibleColumns(state), number = Math.ceil((c1 - c0) / merge);
  const groups = spec.lines || !state.tiers.size ? []
    : state.byTier ? [...state.tiers].map(t => [t, [t]]) : [[state.shown, [...state.tiers]]];
  const made = groups.map(([name, tiers]) =>
    ({name, values: matrix(cells, tiers.map(t => [t, 1]), state.rows, c0, c1, merge)}));
  const top = state.top = Math.max(LEAST_SPAN, ...made.map(m => shadeOf(largest(m.values) || 1)));
  const wide = Math.max(1, Math.floor(COLUMNS / number)), width = number * wide, height = spec.height;
  const axis = state.scale === "log" ? Math.log10 : v => v, [low, high] = state.viewY || bounds.map(axis);
  const pixel = us => Math.round(Math.max(0, Math.min(1, (high - axis(us)) / (high - low))) * height);
  const canvas = element("canvas", {width, height}), context = canvas.getContext("2d");
  const image = context.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  const fill = (column, y0, y1, colour) => {
    const left = column * wide;
    for (let y = y0; y < y1; y++) pixels.fill(colour, y * width + left, y * width + left + wide);
  };
  const grey = coloured([colours.gap, colours.gap])[0];
  for (const [a, b] of cells.gaps) {
    const last = Math.min(b === cells.columns ? number : Math.floor((b - c0) / merge), number);
    for (let c = Math.max(0, Math.ceil((a - c0) / merge)); c < last; c++) fill(c, 0, height, grey);
  }
  for (const {name, values} of made) {
    const table = coloured(state.byTier ? hue(name, colours) : shades());
    values.forEach((line, r) => {
      const lo = cells.edges_us[state.rows[0] + r], hi = cells.edges_us[state.rows[0] + r + 1];
      const y0 = Math.min(pixel(hi), height - 1), y1 = Math.max(pixel(lo), y0 + 1);
      // What is not in view would otherwise be a pixel at its edge.
      if (axis(hi) <= low || axis(lo) >= high) return;
      for (let c = 0; c < number; c++) {
        if (Number.isNaN(line[c])) continue;
        fill(c, y0, y1, table[Math.min(255, Math.round(shadeOf(line[c]) / top * 255))]);
      }
    });
  }
  context.putImageData(image, 0, 0);
  state.painted = {c0, merge, number, made};
  return {canvas, x: c0 * cells.width_s, y: high, sizex: number * merge * cells.width_s, sizey: high - low};
}
