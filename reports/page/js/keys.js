// Arrow keys in a heat map: a cursor that goes from cell to cell with I/Os, and says what is there.
import {announce, latency, seconds} from "./page.js";

const KEYS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]};

// All cells with I/Os of the maps that are shown: {map, r, c, x, y}.
function cellsOf({target}) {
  const cells = [];
  target._fullData.forEach((trace, map) => {
    if (trace.type !== "heatmap" || trace.visible !== true) return;
    for (let r = 0; r < trace.z.length; r++) {
      for (let c = 0; c < trace.z[r].length; c++) {
        const value = trace.z[r][c];
        if (value !== null && !Number.isNaN(value)) cells.push({map, r, c, x: trace.x[c], y: trace.y[r], trace});
      }
    }
  });
  return cells;
}

// The nearest cell in a direction: in the same row to the left and right, in the same column up and down.
function next(cells, at, [dx, dy]) {
  const ahead = cells.filter(({map, r, x, y}) => dx ? map === at.map && r === at.r && (x - at.x) * dx > 0
    : x === at.x && (y - at.y) * dy > 0);
  const far = cell => Math.abs(dx ? cell.x - at.x : cell.y - at.y);
  return ahead.reduce((best, cell) => !best || far(cell) < far(best) ? cell : best, null);
}

export function cursor(figure) {
  const {target} = figure;
  target.tabIndex = 0;
  target.addEventListener("keydown", event => {
    const step = KEYS[event.key], cells = step && target._fullData ? cellsOf(figure) : [];
    if (!cells.length) return;
    event.preventDefault();
    const {at} = figure, still = at && cells.find(({map, r, c}) => map === at.map && r === at.r && c === at.c);
    const cell = figure.at = still ? next(cells, still, step) ?? still : cells[0];
    const {map, r, c, trace} = cell, [low, high] = [trace.y[r], trace.y[r + 1]].map(s => latency(s * 1e6));
    Plotly.Fx.hover(target, [{curveNumber: map, pointNumber: [r, c]}]);
    announce(`${trace.name}: ${trace.customdata[r][c]} I/O, ${seconds(trace.x[c])} to ${seconds(trace.x[c + 1])} s, `
      + `${low} to ${high}`);
  });
}
