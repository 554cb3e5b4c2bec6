// A heat map or histogram that answers: its controls, what is pointed at, what is selected and zoomed to.
import {controls} from "./controls.js";
import {draw} from "./figure.js";
import {figures} from "./library.js";
import {latency, seconds} from "./page.js";
import {COLUMNS} from "./picture.js";
import {choose, rangePanel, tell} from "./range.js";

const tip = document.getElementById("tip");

// Time, latency and count of the cell under the pointer.
function pointed(state, event) {
  const {cells, target, painted} = state, {xaxis2: x, yaxis: y} = target._fullLayout;
  // Bars of a histogram tell of themselves.
  if (!painted) return "";
  const box = target.getBoundingClientRect();
  const left = event.clientX - box.x - x._offset, down = event.clientY - box.y - y._offset;
  if (left < 0 || down < 0 || left >= x._length || down >= y._length) return "";
  const column = Math.floor((x.p2d(left) / cells.width_s - painted.c0) / painted.merge), us = y.p2d(down);
  if (column < 0 || column >= painted.number) return "";
  const first = painted.c0 + column * painted.merge, last = Math.min(first + painted.merge, cells.columns);
  const time = `${seconds(first * cells.width_s)} to ${seconds(last * cells.width_s)} s`;
  if (cells.gaps.some(([a, b]) => a <= first && last <= b)) return `${time}: nothing recorded`;
  const row = cells.edges_us.findIndex((low, n) => low <= us && us < cells.edges_us[n + 1]) - state.rows[0];
  const counts = painted.made.map(m => [m.name, m.values[row]?.[column]]).filter(m => m[1] > 0);
  if (!counts.length) return "";
  const [lo, hi] = [0, 1].map(n => latency(cells.edges_us[state.rows[0] + row + n]));
  return `${time}, ${lo} to ${hi}: ${counts.map(([name, n]) => `${n} I/O, ${name}`).join("; ")}`;
}

function point(state, event) {
  const text = event.buttons ? "" : pointed(state, event);
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, room)) + "px";
  tip.style.top = Math.max(4, event.clientY - tip.offsetHeight - 10) + "px";
}

export function heatMap(target, spec, cells) {
  const state = target.state = {target, spec, cells, tiers: new Set(spec.tiers), byTier: false,
    lines: spec.lines, events: spec.events, scale: spec.scale, range: null, window: 0, view: null,
    viewY: null, drag: spec.histogram ? "zoom" : "select", begun: false};
  target.closest("figure").prepend(controls(state));
  target.after(rangePanel(state));
  tell(state);
  figures.set(target, {first: () => firstDrawing(state), again: () => draw(state), state});
}

async function firstDrawing(state) {
  const {target, cells} = state;
  state.begun = true;
  await draw(state);
  target.addEventListener("mousemove", event => point(state, event));
  target.addEventListener("mouseleave", () => { tip.hidden = true; });
  target.on("plotly_selected", event => {
    const selected = event && event.range && (event.range.x2 || event.range.x);
    if (!selected) return;
    state.ui.panel.open = true;
    choose(state, selected.map(Number)).then(() => Plotly.relayout(target, {selections: []}));
  });
  target.on("plotly_deselect", () => choose(state, null));
  target.on("plotly_relayout", change => {
    if (change.dragmode) state.drag = change.dragmode;
    const moved = name => Object.keys(change).some(key => key.startsWith(name));
    if (moved("xaxis2")) state.view = [...target.layout.xaxis2.range];
    if (moved("yaxis")) state.viewY = [...target.layout.yaxis.range];
    if (moved("yaxis") || (moved("xaxis2") && cells.columns > COLUMNS)) draw(state);
  });
}
