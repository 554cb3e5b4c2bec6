// Time waited in a heat map: its I/Os times their latency, beside their number. Python has the scales
// (reports/figures/heat_map.py); nothing of the stored counts changes.
const SAYS = {octave: "octave of latency", us: "µs of latency"};
const ARRAYS = {f4: Float32Array, f8: Float64Array, i4: Int32Array};

// The rows of a matrix as Python packs it; one that is unpacked as it is.
function matrixRows(matrix) {
  if (!matrix.bdata) return matrix;
  const text = atob(matrix.bdata), bytes = Uint8Array.from(text, letter => letter.charCodeAt(0));
  const all = new ARRAYS[matrix.dtype](bytes.buffer), [rows, columns] = matrix.shape.split(",").map(Number);
  return Array.from({length: rows}, (_, r) => all.subarray(r * columns, (r + 1) * columns));
}

// The trace with what was waited in each cell (s), for tooltips and keys; coloured by it if `isWaited`.
export function withWaits(trace, isWaited) {
  const {meta} = trace;
  if (!meta?.waited) return trace;
  if (!meta.wait_s) return isWaited ? {...trace, marker: meta.waited} : trace;
  const text = matrixRows(trace.customdata).map((row, r) => Float64Array.from(row, n => n * meta.wait_s[r]));
  const hovertemplate = trace.hovertemplate.replace("<br>", ", %{text:.3~s}s waited<br>");
  if (!isWaited) return {...trace, text, hovertemplate};
  const z = matrixRows(trace.z).map((row, r) => Float32Array.from(row, n => n + Math.log10(meta.wait_s[r])));
  return {...trace, text, hovertemplate, z, ...meta.waited};
}

// What the caption and the title of a saved image say.
export const WAITED = ": where users waited";
export function waitedNote({waited, spec}) {
  return waited ? ` Colour: seconds waited per second and ${SAYS[spec.about.per]} (I/Os times latency); `
    + "2 in all, added up over latency, means that two I/Os waited at any time." : "";
}
