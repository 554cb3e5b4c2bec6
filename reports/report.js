// Opens the page: inflates what it holds, draws the figures and answers theme, palette and printer.
window.drawn = 0;
const drawings = [];

async function heatMap(target, spec, cells) {
  const state = target.state = {target, spec, cells, tiers: new Set(spec.tiers), byTier: false, lines: spec.lines,
    events: spec.events, scale: spec.scale, range: null, window: 0, view: null, viewY: null, drag: spec.histogram ? "zoom" : "select"};
  target.closest("figure").prepend(controls(state));
  target.after(rangePanel(state));
  tell(state);
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
  drawings.push(() => draw(state));
}

async function still(target, spec) {
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
  await redraw();
  drawings.push(redraw);
}

function repaint() {
  document.documentElement.dataset.theme = chosen("theme");
  for (const drawing of drawings) drawing();
}

(async () => {
  const code = document.getElementById("plotly-code");
  const text = new TextDecoder().decode(await inflate(code.textContent));
  code.remove();
  document.head.append(element("script", {textContent: text}));
  const blocks = new Map();
  for (const source of document.querySelectorAll("script[id^=cells-]")) {
    blocks.set(source.id, await openCells(JSON.parse(source.textContent)));
  }
  for (const source of document.querySelectorAll("script[id^=figure-]")) {
    const spec = JSON.parse(source.textContent), target = document.getElementById(source.id.replace("-data", ""));
    if (spec.cells) await heatMap(target, spec, blocks.get(spec.cells)); else await still(target, spec);
    window.drawn += 1;
    // The page answers between two figures.
    await new Promise(done => setTimeout(done));
  }
  for (const control of document.querySelectorAll("input[name=theme], input[name=palette]")) control.addEventListener("change", repaint);
  dark.addEventListener("change", repaint);
  addEventListener("beforeprint", () => { printing = true; repaint(); });
  addEventListener("afterprint", () => { printing = false; repaint(); });
})();
