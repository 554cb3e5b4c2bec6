// Opens the page: inflates what it holds, draws each figure when its turn comes, and answers theme and printer.
window.drawn = 0;
// By the element of a figure: what draws it first, what draws it again, and the promise of the first.
const figures = new Map();
let library = null, lastInput = -Infinity;

const pause = (time_ms = 0) => new Promise(done => setTimeout(done, time_ms));
const idle = window.requestIdleCallback ? () => new Promise(done => requestIdleCallback(done, {timeout: 2000})) : () => pause();

// The figure is drawn, or is being drawn: a promise. Whoever needs it first begins it.
function begin(target) {
  const figure = figures.get(target);
  figure.begun ??= library.then(() => figure.first()).then(() => { window.drawn += 1; });
  return figure.begun;
}

function heatMap(target, spec, cells) {
  const state = target.state = {target, spec, cells, tiers: new Set(spec.tiers), byTier: false, lines: spec.lines,
    events: spec.events, scale: spec.scale, range: null, window: 0, view: null, viewY: null,
    drag: spec.histogram ? "zoom" : "select", begun: false};
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
    const found = event && event.range && (event.range.x2 || event.range.x);
    if (!found) return;
    state.ui.panel.open = true;
    choose(state, found.map(Number)).then(() => Plotly.relayout(target, {selections: []}));
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

function still(target, spec) {
  const {data, layout: base} = spec.figure;
  target.closest("figure").prepend(element("div", {className: "controls"}, downloads(target, spec.title, () => spec.csv)));
  const redraw = () => {
    const colours = theme(), axis = {gridcolor: colours.grid, linecolor: colours.rule};
    const layout = {...base, font: {...base.font, color: colours.ink}, paper_bgcolor: colours.paper, plot_bgcolor: colours.paper};
    for (const name of ["xaxis", "xaxis2", "yaxis", "yaxis2"]) layout[name] = {...base[name], ...axis};
    if (printing) Object.assign(layout, {width: 980, autosize: false});
    const traces = data.map(t => ({...t, textfont: {...t.textfont, color: colours.ink}, marker: t.meta === "ours"
      ? {...t.marker, color: colours.bars, line: {...t.marker.line, color: colours.bars}} : t.marker}));
    return Plotly.react(target, traces, layout, {responsive: true, displaylogo: false, showSendToCloud: false,
      plotlyServerURL: "", modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"]});
  };
  figures.set(target, {first: redraw, again: redraw});
}

// Theme, palette or paper have changed: what is drawn is drawn again, the rest will be as it then is.
function repaint() {
  document.documentElement.dataset.theme = chosen("theme");
  for (const figure of figures.values()) if (figure.begun) figure.again();
}

// A printer waits for nobody: what is not drawn yet is drawn now.
function drawAll() {
  printing = true;
  repaint();
  for (const [target, figure] of figures) {
    if (figure.begun) continue;
    if (window.Plotly) figure.begun = Promise.resolve(figure.first()).then(() => { window.drawn += 1; });
    else if (figure.state && target.clientWidth) preview(figure.state);
  }
}

async function openLibrary() {
  const code = document.getElementById("plotly-code"), packed = code.textContent;
  code.remove();
  const text = new TextDecoder().decode(await inflate(packed));
  // What is there already is painted before this, which takes the longest.
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  document.head.append(element("script", {textContent: text}));
}

const near = target => {
  const box = target.getBoundingClientRect();
  return box.bottom > -innerHeight && box.top < 2 * innerHeight;
};

(async () => {
  const blocks = new Map(), specs = [...document.querySelectorAll("script[id^=figure-]")]
    .map(source => [document.getElementById(source.id.replace("-data", "")), JSON.parse(source.textContent)]);
  for (const [target, spec] of specs) {
    if (!spec.cells) { still(target, spec); continue; }
    if (!blocks.has(spec.cells)) {
      blocks.set(spec.cells, await openCells(JSON.parse(document.getElementById(spec.cells).textContent)));
    }
    heatMap(target, spec, blocks.get(spec.cells));
    if (near(target) && !spec.lines && !spec.histogram) preview(target.state);
  }
  for (const control of document.querySelectorAll("input[name=theme], input[name=palette]")) control.addEventListener("change", repaint);
  dark.addEventListener("change", repaint);
  addEventListener("beforeprint", drawAll);
  addEventListener("afterprint", () => { printing = false; repaint(); });
  for (const type of ["pointerdown", "pointermove", "wheel", "keydown", "scroll"]) {
    addEventListener(type, () => { lastInput = performance.now(); }, {capture: true, passive: true});
  }
  const seen = new IntersectionObserver(entries => {
    for (const {target, isIntersecting} of entries) if (isIntersecting) { seen.unobserve(target); begin(target); }
  }, {rootMargin: "300px 0px"});
  library = openLibrary();
  await library;
  for (const target of figures.keys()) seen.observe(target);
  // The others while nobody does anything, so that whoever scrolls, searches or prints finds them drawn.
  for (const [target, figure] of figures) {
    while (!figure.begun && (await idle(), performance.now() - lastInput < 500)) await pause(100);
    await begin(target);
    await pause();
  }
})();
