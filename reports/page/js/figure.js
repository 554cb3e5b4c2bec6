// Draws a figure of counts per time and latency: its picture, its traces and its axes.
import {hue} from "./colours.js";
import {layout, measure} from "./layout.js";
import {plot} from "./library.js";
import {element, seconds, theme} from "./page.js";
import {picture} from "./picture.js";
import {bars, events, keys, lines} from "./traces.js";

function imageOf(state, colours, bounds) {
  const {canvas, ...place} = picture(state, colours, bounds);
  return {...place, source: canvas.toDataURL(), xref: "x2", yref: "y", layer: "below", sizing: "stretch",
    xanchor: "left", yanchor: "top"};
}

// Draws a figure anew. One that was never drawn is drawn when its turn comes, as its controls then are.
export async function draw(state) {
  if (!state.begun) return;
  const {spec, target} = state, colours = theme(), bounds = measure(state);
  const tiers = state.byTier ? [...state.tiers].map(t => bars(state, [t], t, hue(t, colours)[1]))
    : [bars(state, state.tiers, state.shown, colours.bars)];
  const filled = !spec.lines && state.rows[1] > state.rows[0];
  const axes = layout(state, colours, bounds);
  axes.images = spec.histogram ? [] : [imageOf(state, colours, bounds)];
  const traces = [...(filled ? tiers : []), ...keys(state, colours), ...events(state, bounds),
    ...lines(state, colours)];
  // Nothing chosen, or nothing there: the axes stand all the same.
  const xaxis = spec.histogram ? "x" : "x2";
  traces.push({type: "scatter", x: [], y: [], xaxis, yaxis: "y", showlegend: false});
  target.querySelector(".preview")?.remove();
  await plot(target, traces, axes, ["lasso2d", "autoScale2d"]);
}

// The same picture with its axes, for as long as the library that draws the figure is not there yet.
export function preview(state) {
  const {spec, cells, target} = state, colours = theme(), bounds = measure(state);
  const canvas = element("canvas", {className: "preview", width: target.clientWidth, height: spec.height,
    "aria-hidden": "true"});
  const context = canvas.getContext("2d"), {margin, xaxis2, yaxis} = layout(state, colours, bounds);
  const wide = canvas.width - margin.l - margin.r - (state.narrow ? 0 : 70);
  const high = canvas.height - margin.t - margin.b;
  const x = margin.l + xaxis2.domain[0] * wide, width = (xaxis2.domain[1] - xaxis2.domain[0]) * wide;
  const [low, top] = yaxis.range, axis = state.scale === "log" ? Math.log10 : v => v;
  const downTo = value => margin.t + high * (top - axis(value)) / (top - low) + 4;
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture(state, colours, bounds).canvas, x, margin.t, width, high);
  context.strokeStyle = colours.rule;
  context.strokeRect(x + 0.5, margin.t + 0.5, width, high);
  context.fillStyle = colours.ink;
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "right";
  yaxis.tickvals.forEach((value, n) => context.fillText(yaxis.ticktext[n], margin.l - 6, downTo(value)));
  context.textAlign = "left";
  context.fillText("0", x, margin.t + high + 18);
  context.fillText(spec.title, margin.l, 30);
  context.textAlign = "right";
  context.fillText(`${seconds(cells.columns * cells.width_s)} s`, x + width, margin.t + high + 18);
  target.replaceChildren(canvas);
}
