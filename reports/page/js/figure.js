// A figure of counts per time and latency: its traces and its axes around its picture. Text from the run
// reaches the page through textContent and through what Python has made plain only.
const QUANTILES = [0.5, 0.95, 0.99], NAMES = ["p50", "p95", "p99"], DASHES = ["solid", "dash", "dot"];

// A fault is what a reader looks for first: always a whole line, in a colour that no other event has.
const FAULT = {color: "#d8201f", width: 2.2, dash: "solid"};
const EVENT_DASHES = ["dot", "dash", "dashdot", "longdash", "longdashdot", "solid"];
const EVENT_COLOURS = ["#8a6fd1", "#c0662a", "#2f9e8f", "#c2457f", "#7d8b1f", "#5b7fb0"];

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in made && name !== "list") made[name] = value; else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function latency(us, digits = 4) {
  const [factor, unit] = us >= 1e6 ? [1e6, "s"] : us >= 1e3 ? [1e3, "ms"] : us >= 1 ? [1, "µs"] : [1e-3, "ns"];
  return Number((us / factor).toPrecision(digits)) + " " + unit;
}
const seconds = value => Number(value.toFixed(3));

// ---- What a heat map consists of

function columnsOf(state) {
  const {cells, range} = state;
  if (!range) return [0, cells.columns];
  const first = Math.floor(range[0] / cells.width_s + 1e-9), last = Math.ceil(range[1] / cells.width_s - 1e-9);
  return [Math.max(0, Math.min(first, cells.columns - 1)), Math.max(1, Math.min(last, cells.columns))];
}

function lengthOf(state, [first, last]) {
  const {cells} = state;
  return Math.max(Math.min(last * cells.width_s, cells.duration_s) - first * cells.width_s, cells.width_s * 1e-3);
}

function bars(state, tiers, name, colour) {
  const {cells} = state, span = columnsOf(state), length = lengthOf(state, span);
  const counts = summed(cells, tiers, ...span), [r0, r1] = state.rows;
  const low = cells.edges_us.slice(r0, r1), high = cells.edges_us.slice(r0 + 1, r1 + 1);
  // A histogram has the I/Os themselves: it is of one interval, however long that was.
  const per = state.spec.histogram ? 1 : length, unit = state.spec.histogram ? "%{x} I/O" : "%{x:.3g} I/O/s";
  return {type: "bar", orientation: "h", name, showlegend: false, base: 0, offset: 0, xaxis: "x", yaxis: "y",
    x: Array.from(counts.subarray(r0, r1), n => n / per), y: low, width: high.map((v, n) => v - low[n]),
    customdata: high, marker: {color: colour, line: {width: state.spec.histogram && r1 - r0 < 60 ? 0.6 : 0, color: theme().paper}}, opacity: state.byTier ? 0.8 : 1,
    hovertemplate: `%{y:.4g} to %{customdata:.4g} µs: ${unit}<extra></extra>`};
}

// What stands for the picture in the legend and in the colour bar.
function keys(state, colours) {
  const key = {type: "scatter", mode: "markers", x: [null], y: [null], xaxis: "x2", yaxis: "y", hoverinfo: "skip"};
  const square = (name, color) => ({...key, name, marker: {symbol: "square", size: 11, color}, showlegend: true});
  const made = state.cells.gaps.length && !state.spec.histogram ? [square("nothing recorded", colours.gap)] : [];
  if (state.byTier) return [...made, ...[...state.tiers].map(t => square(t, hue(t, colours)[1]))];
  if (state.spec.lines || state.spec.histogram || !state.tiers.size) return made;
  const powers = [1, 3, 10, 30, 100, 300, 1000, 1e4, 1e5, 1e6].filter(v => Math.log10(v) <= state.top + 1e-9);
  const scale = colours[chosen("palette")];
  return [...made, {...key, name: "I/O per cell", showlegend: false, marker: {color: [0], cmin: 0, cmax: state.top,
    showscale: !state.narrow, colorscale: scale.map((c, n) => [n / (scale.length - 1), c]),
    colorbar: {title: {text: "I/O per cell", side: "right"}, thickness: 12, outlinewidth: 0, x: 1.02,
      tickvals: powers.map(Math.log10), ticktext: powers.map(String)}}}];
}

// The percentiles of a histogram, from its left to its right.
function levels(state, colours) {
  const {cells, tiers} = state, counts = summed(cells, tiers, 0, cells.columns), total = totalOf(counts);
  const top = counts.reduce((a, b) => Math.max(a, b), 0);
  return QUANTILES.map((q, n) => [NAMES[n], DASHES[n], percentile(cells, counts, total, q)])
    .filter(([, , value]) => value !== null).map(([name, dash, value]) => ({type: "scatter", mode: "lines", name,
      x: [0, top], y: [value, value], xaxis: "x", yaxis: "y", showlegend: true,
      line: {color: colours.ink, width: 1.7, dash}, hovertemplate: `${name}: ${latency(value)}<extra></extra>`}));
}

function lines(state, colours) {
  if (!state.lines || !state.tiers.size) return [];
  if (state.spec.histogram) return levels(state, colours);
  const {cells, spec} = state, width = state.window || windowOf(cells, state.tiers);
  const {times, lines: found} = overTime(cells, state.tiers, width, QUANTILES);
  // A point between two gaps has no line to be seen by; a mark at each would be slow where there are thousands.
  const alone = y => y.map((v, n) => (v !== null && (y[n - 1] ?? null) === null && (y[n + 1] ?? null) === null ? 5 : 0));
  const marked = times.length <= 150, mode = y => (marked || alone(y).some(Boolean) ? "lines+markers" : "lines");
  const size = y => (marked ? 4 : alone(y));
  const under = spec.lines ? [] : found.map((y, n) => ({y, showlegend: false, hoverinfo: "skip", mode: "lines",
    legendgroup: NAMES[n], line: {color: colours.paper, width: 4}}));
  const over = found.map((y, n) => ({y, mode: mode(y), showlegend: true, legendgroup: NAMES[n],
    line: {color: colours.ink, width: 1.7, dash: DASHES[n]}, marker: {color: colours.ink, size: size(y), line: {width: 0}},
    customdata: y.map(v => v === null ? "" : latency(v)),
    hovertemplate: `${NAMES[n]} at %{x:.4g} s: %{customdata}<extra></extra>`}));
  return [...under, ...over].map((line, n) => ({type: "scatter", name: NAMES[n % 3], x: times,
    connectgaps: false, xaxis: "x2", yaxis: "y",
    selected: {marker: {opacity: 1}}, unselected: {marker: {opacity: 1}}, ...line}));
}

// A line per event; what has a length is a frame from its beginning to its end.
function events(state, [bottom, high]) {
  if (!state.events || state.spec.histogram) return [];
  const kinds = [...new Set(state.cells.events.map(e => e.kind))];
  const log = state.scale === "log";
  return kinds.map((kind, n) => {
    const x = [], y = [], text = [], mine = state.cells.events.filter(e => e.kind === kind);
    // Many of a kind would be a fence in front of the map: they are short marks at its top.
    const low = mine.length <= 12 || kind === "fault" ? bottom : log ? high * (bottom / high) ** 0.05 : high - (high - bottom) * 0.05;
    for (const e of mine) {
      const until = e.to_s === null ? "" : ` to ${seconds(e.to_s)} s`;
      const words = `${seconds(e.from_s)} s${until}: ${e.text || kind}`;
      const path = e.to_s === null || e.to_s <= e.from_s ? [[e.from_s, low], [e.from_s, high]]
        : [[e.from_s, low], [e.from_s, high], [e.to_s, high], [e.to_s, low]];
      for (const [a, b] of path) { x.push(a); y.push(b); text.push(words); }
      x.push(null); y.push(null); text.push("");
    }
    return {type: "scatter", mode: "lines", name: kind, x, y, text, xaxis: "x2", yaxis: "y", showlegend: true,
      hovertemplate: "%{text}<extra>" + kind + "</extra>", connectgaps: false,
      line: kind === "fault" ? FAULT : {color: EVENT_COLOURS[n % 6], width: 1.4, dash: EVENT_DASHES[n % 6]}};
  });
}

function layout(state, colours, bounds) {
  const {spec, cells, narrow} = state, log = state.scale === "log";
  const axis = {gridcolor: colours.grid, linecolor: colours.rule, zeroline: false, ticks: "outside",
    tickcolor: colours.rule, showline: true};
  const steps = [0, 1, 2, 3, 4, 5].map(n => spec.top_us * n / 5);
  const y = log
    ? {type: "log", range: state.viewY || bounds.map(Math.log10), tickvals: spec.log.ticks.map(t => t[0]),
       ticktext: spec.log.ticks.map(t => t[1]), minor: {ticks: "outside", dtick: "D1"}}
    : {type: "linear", range: state.viewY || bounds, tickvals: steps, ticktext: steps.map(v => v ? latency(v, 3) : "0")};
  const legend = state.byTier || cells.gaps.length || state.lines || (state.events && cells.events.length);
  const shapes = spec.published.filter(v => v > 0).map(v => ({type: "line", xref: "x2 domain", yref: "y", x0: 0,
    x1: 1, y0: v, y1: v, line: {color: colours.published, dash: "dash", width: 1.5}}));
  if (state.range) {
    const [a, b] = columnsOf(state);
    shapes.push({type: "rect", xref: "x2", yref: "paper", x0: a * cells.width_s, x1: b * cells.width_s, y0: 0, y1: 1,
      fillcolor: colours.bars, opacity: 0.13, line: {width: 1, color: colours.bars}, layer: "above"});
  }
  const title = narrow ? spec.title.match(/.{1,34}(?:\s|$)|.{1,34}/g).slice(0, 3).join("<br>") : spec.title;
  return {
    template: {}, height: spec.height, autosize: true, showlegend: Boolean(legend), bargap: 0, barmode: "overlay",
    hovermode: "closest", dragmode: state.drag, selectdirection: "h", uirevision: "kept",
    title: {text: `${title}<br><span style="font-size:12px">${spec.load}${spec.mark}</span>`, x: 0, xref: "paper",
      y: 1, yref: "container", yanchor: "top", pad: {t: 22}, font: {size: narrow ? 14 : 16}},
    margin: narrow ? {l: 54, r: 8, t: 96, b: legend ? 104 : 54} : {l: 74, r: 10, t: 82, b: 54},
    font: {family: "system-ui, sans-serif", size: narrow ? 11 : 12, color: colours.ink},
    paper_bgcolor: colours.paper, plot_bgcolor: colours.paper, shapes,
    newselection: {line: {color: colours.bars}},
    legend: narrow ? {orientation: "h", x: 0, y: 0, yref: "container", yanchor: "bottom", font: {size: 10}}
      : {orientation: "h", x: 1, xanchor: "right", y: 1, yanchor: "bottom"},
    annotations: spec.published.filter(v => v > 0 && !narrow).map(v => ({xref: "x2 domain", yref: "y", x: 1,
      y: log ? Math.log10(v) : v, xanchor: "right", yanchor: "bottom", showarrow: false, text: latency(v, 3),
      font: {color: colours.mark, size: 11}})),
    xaxis: spec.histogram ? {...axis, anchor: "y", rangemode: "tozero", nticks: narrow ? 4 : 0, title: {text: "I/O per bin"}}
      : {...axis, visible: !spec.lines, domain: [0, 0.13], autorange: "reversed", rangemode: "tozero", nticks: narrow ? 2 : 3,
        title: {text: "I/O/s"}, tickangle: 0, fixedrange: true},
    xaxis2: spec.histogram ? {visible: false} : {...axis, domain: [spec.lines ? 0 : narrow ? 0.19 : 0.16, 1], anchor: "y", range: state.view || [0, cells.columns * cells.width_s],
      title: {text: narrow ? "time (s)" : "time since the phase began (s)"}, nticks: narrow ? 4 : 0},
    yaxis: {...axis, ...y, uirevision: state.scale, title: narrow ? undefined : {text: "latency", standoff: 6}},
  };
}

// What a drawing of the figure begins with; the latencies that its axis goes from and to.
function measure(state) {
  const {spec, cells, target} = state;
  state.narrow = target.clientWidth < 560;
  state.shown = state.tiers.size === cells.tiers.size && cells.tiers.size > 1 ? "all tiers" : [...state.tiers].join(" + ");
  state.rows = usedRows(cells, state.tiers);
  if (state.scale === "log") return [spec.log.low_us, spec.log.high_us];
  while (state.rows[1] > state.rows[0] && cells.edges_us[state.rows[1] - 1] >= spec.top_us) state.rows[1]--;
  return [0, spec.top_us];
}

// Draws a figure anew. One that was never drawn is drawn when its turn comes, as its controls then are.
async function draw(state) {
  if (!state.begun) return;
  const {spec, target} = state, colours = theme(), bounds = measure(state);
  const tiers = state.byTier ? [...state.tiers].map(t => bars(state, [t], t, hue(t, colours)[1]))
    : [bars(state, state.tiers, state.shown, colours.bars)];
  const filled = !spec.lines && state.rows[1] > state.rows[0];
  const figure = layout(state, colours, bounds);
  figure.images = spec.histogram ? [] : [paint(state, colours, bounds)];
  const traces = [...(filled ? tiers : []), ...keys(state, colours), ...events(state, bounds), ...lines(state, colours)];
  // Nothing chosen, or nothing there: the axes stand all the same.
  traces.push({type: "scatter", x: [], y: [], xaxis: spec.histogram ? "x" : "x2", yaxis: "y", showlegend: false});
  if (printing) Object.assign(figure, {width: 980, autosize: false});
  target.querySelector(".preview")?.remove();
  await Plotly.react(target, traces, figure, {
    responsive: true, displaylogo: false, scrollZoom: false,
    // "Share chart..." would post the figure to a server from a new window, past this page's policy.
    showSendToCloud: false, plotlyServerURL: "",
    modeBarButtonsToRemove: ["lasso2d", "autoScale2d"],
  });
}
