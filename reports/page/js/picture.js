// The colours of the page, and a figure as one picture of its cells.
const COLUMNS = 1200;
const dark = matchMedia("(prefers-color-scheme: dark)");
let printing = false;

const LIGHT = {ink: "#22262b", grid: "#e3e6ea", rule: "#5b6470", paper: "#ffffff", gap: "#cfd4da", mark: "#7a4800",
  bars: "#1d5fa8", published: "#d98a1f",
  classic: ["#0d1033", "#1b2a9c", "#1f6fe0", "#19b5d8", "#2fbf5b", "#d9d326", "#f28a1c", "#d8201f"],
  safe: ["#f9a11a", "#e55c30", "#ba3655", "#85216b", "#4b0c6b", "#160b39"]};
const DARK = {ink: "#e4e8ec", grid: "#2b3138", rule: "#8b949e", paper: "#14181d", gap: "#3d454e", mark: "#f0b060",
  bars: "#5b9be0", published: "#d98a1f",
  classic: ["#5a63e8", "#2f86f0", "#19b5d8", "#2fbf5b", "#d9d326", "#f28a1c", "#ff4a3d"],
  safe: ["#85216b", "#ba3655", "#e55c30", "#f9a11a", "#f6d746", "#fcffa4"]};
// One hue per tier: what a few I/Os look like on white, and what many do. The safe ones are Okabe and Ito's.
const HUES = {
  classic: {dram: ["#9ad3ac", "#0b5a28"], l2arc: ["#9cc4ee", "#0d3f7d"], disk: ["#f2aaa2", "#8f1a13"],
    slog: ["#cdb2ec", "#532388"], pool: ["#f4be8f", "#8a3a02"], shared: ["#c3c8ce", "#3a424b"],
    indirect: ["#8fd6dc", "#07555f"], direct: ["#ddd08a", "#5d4b00"]},
  safe: {dram: ["#7fceb9", "#009e73"], l2arc: ["#7fb8d8", "#0072b2"], disk: ["#eaae7f", "#d55e00"],
    slog: ["#e5bcd3", "#b8568c"], pool: ["#f2cf7f", "#c98a00"], shared: ["#c3c8ce", "#5b6470"],
    indirect: ["#aad9f4", "#3a9fd8"], direct: ["#e8e08a", "#a89c00"]},
};

const chosen = name => document.querySelector(`input[name=${name}]:checked`).value;
function theme() {
  const wanted = chosen("theme");
  return !printing && (wanted === "dark" || (wanted === "auto" && dark.matches)) ? DARK : LIGHT;
}
function hue(tier, colours) {
  const [few, many] = HUES[chosen("palette")][tier] || ["#c3c8ce", "#3a424b"];
  return colours === DARK ? [many, few] : [few, many];
}

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

// The cells as one picture that lies in the axes: Plotly's own heat map takes seconds for an hour of them.
// Intervals for which the store has nothing are grey from top to bottom, unlike a count of zero.
function picture(state, colours, bounds) {
  const {cells, spec} = state, [c0, c1, merge] = visibleColumns(state), number = Math.ceil((c1 - c0) / merge);
  const groups = spec.lines || !state.tiers.size ? []
    : state.byTier ? [...state.tiers].map(t => [t, [t]]) : [[state.shown, [...state.tiers]]];
  const made = groups.map(([name, tiers]) => ({name, tiers, ...matrix(cells, tiers, state.rows, c0, c1, merge)}));
  const top = state.top = Math.max(0.31, ...made.map(m => m.top));
  const wide = Math.max(1, Math.floor(COLUMNS / number)), width = number * wide, height = spec.height;
  const axis = state.scale === "log" ? Math.log10 : v => v, [low, high] = state.viewY || bounds.map(axis);
  const pixel = us => Math.round(Math.max(0, Math.min(1, (high - axis(us)) / (high - low))) * height);
  const canvas = element("canvas", {width, height}), context = canvas.getContext("2d");
  const image = context.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  const fill = (column, y0, y1, colour) => {
    for (let y = y0; y < y1; y++) pixels.fill(colour, y * width + column * wide, y * width + (column + 1) * wide);
  };
  const grey = coloured([colours.gap, colours.gap])[0];
  for (const [a, b] of cells.gaps) {
    const last = Math.min(b === cells.columns ? number : Math.floor((b - c0) / merge), number);
    for (let c = Math.max(0, Math.ceil((a - c0) / merge)); c < last; c++) fill(c, 0, height, grey);
  }
  for (const {name, z} of made) {
    const table = coloured(state.byTier ? hue(name, colours) : colours[chosen("palette")]);
    z.forEach((line, r) => {
      const lo = cells.edges_us[state.rows[0] + r], hi = cells.edges_us[state.rows[0] + r + 1];
      const y0 = Math.min(pixel(hi), height - 1), y1 = Math.max(pixel(lo), y0 + 1);
      // What is not in view would otherwise be a pixel at its edge.
      if (axis(hi) <= low || axis(lo) >= high) return;
      for (let c = 0; c < number; c++) {
        if (line[c] === line[c]) fill(c, y0, y1, table[Math.min(255, Math.round(line[c] / top * 255))]);
      }
    });
  }
  context.putImageData(image, 0, 0);
  state.painted = {c0, merge, number, made};
  return {canvas, x: c0 * cells.width_s, y: high, sizex: number * merge * cells.width_s, sizey: high - low};
}

function paint(state, colours, bounds) {
  const {canvas, ...place} = picture(state, colours, bounds);
  return {...place, source: canvas.toDataURL(), xref: "x2", yref: "y", layer: "below", sizing: "stretch",
    xanchor: "left", yanchor: "top"};
}

// The same picture with its axes, for as long as the library that draws the figure is not there yet.
function preview(state) {
  const {spec, cells, target} = state, colours = theme(), bounds = measure(state);
  const canvas = element("canvas", {className: "preview", width: target.clientWidth, height: spec.height, "aria-hidden": "true"});
  const context = canvas.getContext("2d"), figure = layout(state, colours, bounds), {margin, xaxis2, yaxis} = figure;
  const wide = canvas.width - margin.l - margin.r - (state.narrow ? 0 : 70), high = canvas.height - margin.t - margin.b;
  const x = margin.l + xaxis2.domain[0] * wide, width = (xaxis2.domain[1] - xaxis2.domain[0]) * wide;
  const [low, top] = yaxis.range, axis = state.scale === "log" ? Math.log10 : v => v;
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture(state, colours, bounds).canvas, x, margin.t, width, high);
  context.strokeStyle = colours.rule;
  context.strokeRect(x + 0.5, margin.t + 0.5, width, high);
  context.fillStyle = colours.ink;
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "right";
  yaxis.tickvals.forEach((value, n) => context.fillText(yaxis.ticktext[n], margin.l - 6, margin.t + high * (top - axis(value)) / (top - low) + 4));
  context.textAlign = "left";
  context.fillText("0", x, margin.t + high + 18);
  context.fillText(spec.title, margin.l, 30);
  context.textAlign = "right";
  context.fillText(`${seconds(cells.columns * cells.width_s)} s`, x + width, margin.t + high + 18);
  target.replaceChildren(canvas);
}
