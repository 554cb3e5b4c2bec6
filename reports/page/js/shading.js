// What the colours of a heat map count: I/Os, or their time waited (I/Os times latency); and the scale of
// what is drawn. Python has the first scale (reports/figures/heat_map.py); stored counts stay as they are.
const SAYS = {octave: "octave of latency", us: "µs of latency"};
const ARRAYS = {f4: Float32Array, f8: Float64Array, i4: Int32Array};

// The rows of a matrix as Python packs it; one that is unpacked as it is.
export function matrixRows(matrix) {
  if (!matrix.bdata) return matrix;
  const text = atob(matrix.bdata), bytes = Uint8Array.from(text, letter => letter.charCodeAt(0));
  const all = new ARRAYS[matrix.dtype](bytes.buffer), [rows, columns] = matrix.shape.split(",").map(Number);
  return Array.from({length: rows}, (_, r) => all.subarray(r * columns, (r + 1) * columns));
}

export function waited(trace) {
  const {wait_s} = trace.meta ?? {};
  return wait_s ? {...trace, z: matrixRows(trace.z).map((row, r) =>
    Float32Array.from(row, n => n + Math.log10(wait_s[r] || 1e-9)))} : trace;
}

// Powers of ten, and 2 and 5 times them, from `low` to `top` (log10).
function ticks(low, top) {
  const values = [];
  for (let n = Math.floor(low); n <= top; n++) values.push(n, n + Math.log10(2), n + Math.log10(5));
  return values.filter(value => value >= low && value <= top);
}

// The maps of a figure on the scale of the cells that they have, and its bar, as heat_map.py scales them.
export function rescaled(traces, unit) {
  let top = -Infinity, least = Infinity;
  for (const {x, z, customdata} of traces.filter(({type}) => type === "heatmap")) {
    const counts = matrixRows(customdata);
    matrixRows(z).forEach((row, r) => row.forEach((value, c) => {
      if (x[c + 1] - x[c] < (x[1] - x[0]) / 2) return;
      if (value > top) top = value;
      if (value < least && counts[r][c] >= 0.5) least = value;
    }));
  }
  if (top === -Infinity) return traces;
  const low = Math.min(Math.max(least, top - 3), top - 0.3), tickvals = ticks(low, top);
  const ticktext = tickvals.map(value => Number((10 ** value).toPrecision(1)).toLocaleString("en-US",
    {maximumSignificantDigits: 1}));
  return traces.map(trace => {
    if (trace.type === "heatmap") return {...trace, zmin: low, zmax: top};
    if (trace.meta?.tier !== "scale") return trace;
    const {marker} = trace, colorbar = {...marker.colorbar, tickvals, ticktext};
    colorbar.title = {...colorbar.title, text: colorbar.title.text.replace("I/O", unit)};
    return {...trace, marker: {...marker, color: [low], cmin: low, cmax: top, colorbar}};
  });
}

// What the caption and the title of a saved image say.
export const WAITED = ": where users waited";
export const waitedNote = per => ` Colour: seconds waited per second and ${SAYS[per]} (I/Os times latency). `
  + "A column that adds up to 2: two I/Os waiting on average.";
