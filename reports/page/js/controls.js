// The controls of a figure: what is shown, which range, what is told of it and what is saved.
const tip = document.getElementById("tip");

// ---- Range, table, export

function tableOf(state) {
  const {cells} = state, span = columnsOf(state), length = lengthOf(state, span);
  const groups = [...state.tiers].map(t => [t, [t]]);
  if (groups.length > 1) groups.push(["all shown", [...state.tiers]]);
  return groups.map(([name, tiers]) => {
    const counts = summed(cells, tiers, ...span), total = totalOf(counts);
    const first = counts.findIndex(n => n > 0), last = counts.findLastIndex(n => n > 0);
    const at = q => percentile(cells, counts, total, q);
    return {name, total, rate: total / length, low: total ? cells.edges_us[first] : null, p50: at(0.5), p95: at(0.95),
      p99: at(0.99), p999: at(0.999), high: total ? cells.edges_us[last + 1] : null};
  });
}

function tell(state) {
  const {cells, ui} = state, [a, b] = columnsOf(state), rows = tableOf(state);
  const whole = !state.range, end = seconds(Math.min(b * cells.width_s, Math.max(cells.duration_s, a * cells.width_s)));
  const total = rows.length ? rows.at(-1).total : 0;
  ui.summary.textContent = state.spec.histogram ? `Percentiles of ${total} I/Os` : `${whole ? "Whole phase" : "Selected"}: ${seconds(a * cells.width_s)} to ${end} s, ${total} I/Os`;
  ui.from.value = seconds(a * cells.width_s);
  ui.to.value = seconds(b * cells.width_s);
  const us = v => v === null ? "n too small" : latency(v, 3);
  ui.body.replaceChildren(...rows.map(r => element("tr", {}, element("th", {scope: "row", textContent: r.name}),
    ...[String(r.total), state.spec.histogram ? "-" : r.rate.toPrecision(3), r.total ? us(r.low) : "-", us(r.p50), us(r.p95), us(r.p99), us(r.p999),
      r.total ? us(r.high) : "-"].map(text => element("td", {className: "n", textContent: text})))));
}

async function choose(state, range) {
  const {cells} = state, end = cells.columns * cells.width_s;
  if (range) {
    const [a, b] = [Math.min(...range), Math.max(...range)].map(v => Math.max(0, Math.min(v, end)));
    state.range = Number.isFinite(a) && Number.isFinite(b) && b > a ? [a, b] : null;
  } else state.range = null;
  tell(state);
  await draw(state);
}

function percentilesOf(state) {
  const {cells, spec} = state, width = state.window || windowOf(cells, state.tiers), tiers = [...state.tiers].join(" + ");
  const {lines: found} = overTime(cells, state.tiers, width, QUANTILES), [first, last] = columnsOf(state);
  const rows = [["figure", "phase", "layer", "op", "tiers", "from_s", "to_s", ...NAMES.map(n => `${n}_us`)]];
  // Two points of a line are the ends of one window.
  found[0].filter((_, n) => n % 2).forEach((_, n) => {
    const from = n * width, to = Math.min(from + width, cells.columns);
    // Empty where the sample is too small.
    if (from < last && to > first) rows.push([spec.title, spec.phase, spec.layer, spec.op, tiers, seconds(from * cells.width_s),
      seconds(to * cells.width_s), ...found.map(line => line[2 * n])]);
  });
  return rows;
}

function csvOf(state) {
  const {cells, spec} = state, [first, last] = columnsOf(state);
  if (spec.lines) return percentilesOf(state);
  const rows = [["figure", "phase", "layer", "op", "tier", "from_s", "to_s", "lo_us", "hi_us", "count"]];
  for (const tier of state.tiers) {
    const {row, count, starts} = cells.tiers.get(tier);
    for (let c = first; c < last; c++) {
      for (let n = starts[c]; n < starts[c + 1]; n++) {
        const times = spec.histogram ? ["", ""] : [seconds(c * cells.width_s), seconds((c + 1) * cells.width_s)];
        rows.push([spec.title, spec.phase, spec.layer, spec.op, tier, ...times,
          cells.edges_us[row[n]], cells.edges_us[row[n] + 1], count[n]]);
      }
    }
  }
  return rows;
}

function save(name, rows) {
  const address = URL.createObjectURL(new Blob(["\ufeff", csvText(rows)], {type: "text/csv"}));
  element("a", {href: address, download: `${name}.csv`}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function fileName(title) {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "figure";
}

function downloads(target, title, rows) {
  const picture = format => async () => (await begin(target), Plotly).downloadImage(target, {format, filename: fileName(title),
    width: Math.max(target.clientWidth, 900), height: target.clientHeight, scale: format === "png" ? 2 : 1});
  const button = (label, work) => element("button", {type: "button", textContent: label, onclick: work,
    "aria-label": `Save as ${label}: ${title}`});
  return element("span", {className: "group"}, button("PNG", picture("png")), button("SVG", picture("svg")),
    button("CSV", () => save(fileName(title), rows())));
}

// ---- Controls

function check(state, label, read, write, disabled = false) {
  const box = element("input", {type: "checkbox", checked: read(), disabled});
  box.addEventListener("change", () => { write(box.checked); tell(state); draw(state); });
  return element("label", {}, box, ` ${label}`);
}

function choice(state, label, options, value, write) {
  const list = element("select", {}, ...options.map(([v, text]) => element("option", {value: v, textContent: text})));
  list.value = value;
  list.addEventListener("change", () => { write(list.value); draw(state); });
  return element("label", {}, `${label} `, list);
}

function controls(state) {
  const {cells, spec, target} = state, bar = element("div", {className: "controls"});
  if (spec.tiers.length > 1) {
    bar.append(element("fieldset", {className: "group"}, element("legend", {textContent: "Tiers"}),
      ...spec.tiers.map(t => check(state, t, () => true, on => {
        // In the order of the list, whatever the order of the clicks.
        const wanted = new Set(state.tiers);
        if (on) wanted.add(t); else wanted.delete(t);
        state.tiers = new Set(spec.tiers.filter(name => wanted.has(name)));
      })), ...(spec.lines ? [] : [check(state, "by colour", () => false, on => { state.byTier = on; })])));
  }
  const widths = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600].filter(w => w < cells.columns);
  bar.append(element("span", {className: "group"},
    check(state, "percentiles", () => state.lines, on => { state.lines = on; }),
    ...(spec.histogram ? [] : [choice(state, "per", [["0", "auto"], ...widths.map(w => [String(w), `${seconds(w * cells.width_s)} s`])], "0",
      v => { state.window = Number(v); }),
    check(state, `events (${cells.events.length})`, () => state.events, on => { state.events = on; }, !cells.events.length)]),
    choice(state, "latency", [["log", "logarithmic"], ["linear", "linear"]], state.scale, v => { state.scale = v; state.viewY = null; })),
    downloads(target, spec.title, () => csvOf(state)));
  return bar;
}

function rangePanel(state) {
  const {cells} = state, end = cells.columns * cells.width_s;
  const number = label => element("input", {type: "number", min: 0, max: seconds(end), step: seconds(cells.width_s) || "any",
    "aria-label": `${label}, seconds since the phase began`});
  const ui = state.ui = {summary: element("summary", {"aria-live": "polite"}), from: number("From"), to: number("To"),
    body: element("tbody")};
  const typed = () => choose(state, [ui.from.valueAsNumber, ui.to.valueAsNumber]);
  ui.from.addEventListener("change", typed);
  ui.to.addEventListener("change", typed);
  const button = (label, work) => element("button", {type: "button", textContent: label, onclick: work});
  const heads = ["Tier", "I/Os", "I/O/s", "From", "p50", "p95", "p99", "p99.9", "To"];
  ui.panel = element("details", {className: "range"}, ui.summary, ...(state.spec.histogram ? [] : [
    element("div", {className: "controls"}, element("span", {className: "group"},
      element("label", {}, "From ", ui.from, " s"), element("label", {}, "to ", ui.to, " s"),
      button("Whole phase", () => { state.view = state.viewY = null; choose(state, null); }),
      button("Zoom to it", async () => (await begin(state.target), Plotly).relayout(state.target, {"xaxis2.range": columnsOf(state).map(c => c * cells.width_s)}))))]),
    element("div", {className: "table"}, element("table", {}, element("thead", {}, element("tr", {},
      ...heads.map((h, n) => element("th", {textContent: h, className: n ? "n" : ""})))), ui.body)));
  return ui.panel;
}

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
  const found = painted.made.map(m => [m.name, m.z[row] && 10 ** m.z[row][column]]).filter(m => m[1] > 0);
  if (!found.length) return "";
  const [lo, hi] = [0, 1].map(n => latency(cells.edges_us[state.rows[0] + row + n]));
  return `${time}, ${lo} to ${hi}: ${found.map(([name, n]) => `${Math.round(n)} I/O, ${name}`).join("; ")}`;
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
