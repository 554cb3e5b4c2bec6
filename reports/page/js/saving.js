// The controls at the upper right of a figure: what its colours count, exact bins, and saving it so that it
// stands alone: PNG, SVG in vectors, or its numbers as CSV.
import {columnsOf, edgeOf} from "./cells.js";
import {layoutOf} from "./figure.js";
import {begin} from "./library.js";
import {element, seconds} from "./page.js";
import {turn} from "./selection.js";
import {RUN, STAMP} from "./settings.js";
import {WAITED} from "./shading.js";

const LEVELS = 24;
const ABOVE_PX = 26 + 16 * STAMP.length;
const LEGEND_PX = 190;

// Of an image: what its colours are, too. A table has counts whatever the colours.
const titleOf = ({spec, link}) => spec.title + (link.waited ? WAITED : "");

function fileName({link}, title) {
  const range = link.range ? ` ${link.range.map(seconds).join("-")} s` : "";
  const name = `${RUN} ${title}${range}`.toLowerCase().replace(/[^a-z0-9.]+/g, "-");
  return name.replace(/^-|-$/g, "").slice(0, 100) || "figure";
}

// A heat map as polygons, one trace a level of colour: Plotly would put a picture into the SVG.
function vectors(trace, full) {
  if (trace.type !== "heatmap" || full.visible !== true) return [trace];
  const {x, y, z, zmin, zmax} = full, levels = Array.from({length: LEVELS}, () => ({x: [], y: []}));
  for (let r = 0; r < z.length; r++) {
    for (let c = 0; c < z[r].length; c++) {
      const value = z[r][c];
      if (!Number.isFinite(value)) continue;
      const part = Math.max(0, Math.min(1, (value - zmin) / (zmax - zmin)));
      const level = levels[Math.round(part * (LEVELS - 1))];
      level.x.push(x[c], x[c + 1], x[c + 1], x[c], null);
      level.y.push(y[r], y[r], y[r + 1], y[r + 1], null);
    }
  }
  const colours = full.colorscale.map(([, colour]) => colour);
  const {xaxis, yaxis, name, showlegend} = trace, common = {type: "scatter", xaxis, yaxis};
  // The line closes the seam between two cells, and keeps a thin one visible.
  return levels.map((level, n) => {
    const color = mixed(colours, n / (LEVELS - 1));
    return {...common, ...level, mode: "lines", fill: "toself", line: {width: 0.7, color}, fillcolor: color,
      showlegend: false};
  }).filter(level => level.x.length)
    .concat([{...common, mode: "markers", x: [null], y: [null], name, showlegend,
      marker: {symbol: "square", size: 10, color: colours.at(-1)}}]);
}

function mixed(colours, part) {
  const at = part * (colours.length - 1), n = Math.min(Math.floor(at), colours.length - 2), share = at - n;
  const [a, b] = [colours[n], colours[n + 1]].map(hex =>
    [1, 3, 5].map(k => parseInt(hex.slice(k, k + 2), 16)));
  return `rgb(${a.map((v, k) => Math.round(v * (1 - share) + b[k] * share)).join(",")})`;
}

async function picture(figure, format) {
  const {target} = figure, title = titleOf(figure);
  await begin(figure);
  const {data, _fullData: full} = target, layout = layoutOf(figure, true), height = layout.height + ABOVE_PX;
  for (const name in layout) if (/^[xy]axis/.test(name)) layout[name].range = target.layout[name].range;
  const beside = layout.showlegend === false ? 0 : LEGEND_PX;
  const legend = {...layout.legend, orientation: "v", xref: "container", x: 1, xanchor: "right", y: 1,
    yanchor: "top"};
  // What is not drawn needs no name.
  const shown = data.map(trace => trace.visible === "legendonly" ? {...trace, showlegend: false} : trace);
  const stamp = STAMP.map(line => `<span style="font-size:11px">${line}</span>`);
  const text = [`<b>${title}</b>`, ...stamp].join("<br>");
  await Plotly.downloadImage({
    data: format === "svg" ? shown.flatMap((trace, n) => vectors(trace, full[n])) : shown,
    layout: {...layout, height, legend,
      margin: {...layout.margin, t: layout.margin.t + ABOVE_PX, r: layout.margin.r + beside},
      title: {text, x: 0, xref: "container", xanchor: "left", y: 1 - 12 / height, yref: "container",
        yanchor: "top", pad: {l: 12}, font: {size: 15}}},
  }, {format, filename: fileName(figure, title), height, width: Math.max(target.clientWidth, 900) + beside,
    scale: format === "png" ? 2 : 1});
}

// Tables as CSV that no spreadsheet takes for formulas.
const FORMULA = /^(?:[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20])/;
// eslint-disable-next-line no-control-regex -- control characters are what is looked for
const CONTROLS = /[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

function csvCell(value) {
  // To nine digits: edges of bins are whole nanoseconds, and 5.5040000000000004 is none.
  if (Number.isInteger(value)) return String(value);
  if (typeof value === "number") return String(Number(value.toPrecision(9)));
  let text = String(value ?? "");
  text = (FORMULA.test(text) ? "'" : "") + text.replace(CONTROLS, "?");
  return /[",]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

function csvText(rows) {
  return rows.map(row => row.map(csvCell).join(",") + "\r\n").join("");
}

// The stored counts of what is selected; a figure without them has a table of its own.
function rowsOf(figure) {
  const {cells, spec, link} = figure, {phase, layer, op, histogram, tier: only} = spec.about;
  if (!cells || spec.csv.length) return spec.csv;
  const [first, last] = columnsOf(cells, link.range);
  const rows = [["figure", "phase", "layer", "op", "tier", "from_s", "to_s", "lo_us", "hi_us", "count"]];
  for (const [tier, {row, count, starts}] of cells.tiers) {
    if (only && tier !== only) continue;
    for (let c = first; c < last; c++) {
      const times = histogram ? ["", ""] : [c, c + 1].map(edge => seconds(edgeOf(cells, edge)));
      for (let n = starts[c]; n < starts[c + 1]; n++) {
        rows.push([spec.title, phase, layer, op, tier, ...times, cells.edges_us[row[n]],
          cells.edges_us[row[n] + 1], count[n]]);
      }
    }
  }
  return rows;
}

function table(figure) {
  const {spec, link: {range}} = figure, of = range ? `, selected ${range.map(seconds).join(" to ")} s` : "";
  const head = [spec.title + of, ...STAMP].map(line => `# ${line.replace(/[\r\n]/g, " ")}\r\n`);
  const file = new Blob(["\ufeff", ...head, csvText(rowsOf(figure))], {type: "text/csv"});
  const address = URL.createObjectURL(file);
  element("a", {href: address, download: `${fileName(figure, spec.title)}.csv`}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function saving(figure) {
  const button = (label, work) => element("button", {type: "button", textContent: label, onclick: work,
    "aria-label": `Save as ${label}: ${figure.spec.title}`});
  const buttons = [button("PNG", () => picture(figure, "png")), button("SVG", () => picture(figure, "svg"))];
  if (figure.cells || figure.spec.csv.length) buttons.push(button("CSV", () => table(figure)));
  const box = element("details", {className: "save"}, element("summary", {textContent: "Save"}),
    element("div", {}, ...buttons));
  box.addEventListener("focusout", event => { box.open &&= box.contains(event.relatedTarget); });
  return box;
}

export function controls(figure) {
  const isMap = figure.spec.data.some(trace => trace.type === "heatmap"), merges = figure.cells && isMap;
  const switches = merges ? [option(figure, "waited", "time waited"), option(figure, "exactly", "exact bins")]
    : [];
  return element("div", {className: "controls"}, ...switches, saving(figure));
}

// A box that is checked while `name` is true of all figures of the phase.
function option({link}, name, label) {
  const box = element("input", {type: "checkbox", name, checked: Boolean(link[name])});
  box.addEventListener("change", () => turn(link, name, box.checked));
  return element("label", {}, box, ` ${label}`);
}
