// Keys in a heat map: a cursor goes from cell to cell with I/Os and says what is there; Enter selects it.
import {announce} from "./page.js";

const KEYS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1],
  Home: [-Infinity, 0], End: [Infinity, 0], Enter: [0, 0]};

const middle = (edges, n) => (edges[n] + edges[n + 1]) / 2;
const panel = ({xaxis, yaxis}) => xaxis + yaxis;

// Whether a cell has I/Os, and its middle is in view.
function has({z, x, y, xaxis, yaxis, axes}, r, c) {
  return Number.isFinite(z[r]?.[c]) && [[xaxis, x, c], [yaxis, y, r]].every(([name, edges, n]) => {
    const {type, range} = axes[name.replace(/^[xy]/, "$&axis")];
    const [low, high] = type === "log" ? range.map(v => 10 ** v) : range;
    return middle(edges, n) >= low && middle(edges, n) <= high;
  });
}

function firstOf(trace) {
  for (let r = 0; trace && r < trace.z.length; r++) {
    for (let c = 0; c < trace.z[r].length; c++) if (has(trace, r, c)) return {trace, r, c};
  }
  return null;
}

// To the left and right: the next cell of the row, then the map beside it; infinitely far: the row's end.
// Up and down: the next of the column, whatever its tier.
function next(maps, {trace, r, c}, [dx, dy]) {
  if (dx) {
    const row = [...trace.z[r].keys()].filter(n => has(trace, r, n));
    if (Math.abs(dx) === Infinity) return {trace, r, c: row.at(dx > 0 ? -1 : 0)};
    const n = dx > 0 ? row.find(each => each > c) : row.findLast(each => each < c);
    if (n !== undefined) return {trace, r, c: n};
    const beside = maps.filter(map => (map.index - trace.index) * dx > 0 && panel(map) !== panel(trace));
    return firstOf(beside.at(dx > 0 ? 0 : -1));
  }
  let best = null, least = Infinity;
  for (const map of maps.filter(other => panel(other) === panel(trace))) {
    for (let n = 0; n < map.z.length; n++) {
      // Tiers with the same latency lie over each other: in their order.
      const far = (map.y[n] - trace.y[r] || (map.index - trace.index) * 1e-15) * dy;
      if (far > 0 && far < least && has(map, n, c)) [best, least] = [{trace: map, r: n, c}, far];
    }
  }
  return best;
}

// `choose(figure, axis, times, latencies)`: what Enter does, both as [from, to] of the cell.
export function cursor(figure, choose = null) {
  const {target} = figure;
  target.tabIndex = 0;
  target.addEventListener("keydown", event => {
    const maps = KEYS[event.key] && event.target === target
      ? (target._fullData ?? []).filter(({type, visible}) => type === "heatmap" && visible === true)
        .map(trace => ({...trace, axes: target._fullLayout})) : [];
    if (!maps.length) return;
    event.preventDefault();
    const {at} = figure, here = at && {...at, trace: maps.find(({index}) => index === at.index)};
    const stays = here?.trace && has(here.trace, here.r, here.c);
    if (event.key === "Enter") {
      if (!stays || !choose) return;
      const {trace: {xaxis, x, y}, r, c} = here;
      choose(figure, xaxis, [x[c], x[c + 1]], [y[r], y[r + 1]]);
      return;
    }
    const cell = stays ? next(maps, here, KEYS[event.key]) ?? here : firstOf(maps[0]);
    if (!cell) return;
    const {trace, r, c} = cell;
    figure.at = {index: trace.index, r, c};
    Plotly.Fx.hover(target, {xval: middle(trace.x, c), yval: middle(trace.y, r)}, panel(trace));
    announce(trace.text[r][c].replaceAll("<br>", ", "));
  });
}
