// The stored counts behind a figure, and what is computed from them. No drawing here.
import {numbers} from "./encoding.js";

// Of each tier: starts[c] to starts[c + 1] are the entries of column c; row and count of each entry.
export async function openCells(raw) {
  const cells = {...raw, rows: raw.edges_us.length - 1, tiers: new Map()}, {columns} = raw;
  for (const [name, packed] of Object.entries(raw.tiers)) {
    const [steps, counts] = await Promise.all([numbers(packed.steps), numbers(packed.counts)]);
    const rows = new Uint16Array(steps.length), places = new Uint32Array(steps.length);
    const starts = new Uint32Array(columns + 1);
    for (let n = 0, at = -1; n < steps.length; n++) {
      at += steps[n] + 1;
      rows[n] = Math.floor(at / columns);
      places[n] = at % columns;
      starts[places[n] + 1] += 1;
    }
    for (let c = 0; c < columns; c++) starts[c + 1] += starts[c];
    // They come row by row and are kept column by column.
    const next = starts.slice(), row = new Uint16Array(rows.length), count = new Float64Array(rows.length);
    for (let n = 0; n < rows.length; n++) {
      const at = next[places[n]]++;
      row[at] = rows[n];
      count[at] = counts[n];
    }
    cells.tiers.set(name, {row, count, starts});
  }
  return cells;
}

// I/Os per row of a tier in the columns from `first` up to, not including, `last`.
export function summed(cells, tier, [first, last]) {
  const total = new Float64Array(cells.rows), {row, count, starts} = cells.tiers.get(tier);
  for (let n = starts[first]; n < starts[last]; n++) total[row[n]] += count[n];
  return total;
}

// The columns [first, last) that a range in seconds touches, one at least; all without a range.
export function columnsOf({columns, width_s}, range) {
  if (!range) return [0, columns];
  const [a, b] = range.map(v => v / width_s);
  const first = Math.max(0, Math.min(Math.floor(a + 1e-9), columns - 1));
  return [first, Math.max(first + 1, Math.min(Math.ceil(b - 1e-9), columns))];
}

export const totalOf = counts => counts.reduce((sum, n) => sum + n, 0);

// Where a column begins, in seconds: the end of the phase may cut off the last one.
export const edgeOf = ({width_s, duration_s}, column) => Math.min(column * width_s, duration_s);

// How long these columns took, in seconds.
export const lengthOf = (cells, [first, last]) =>
  Math.max(edgeOf(cells, last) - edgeOf(cells, first), cells.width_s * 1e-3);

// In microseconds; null where the sample is too small. Interpolated in its bin, as interpolated_us() of
// reports/statistics/quantiles.py: the last latency of a bin is a nanosecond below its upper edge.
export function percentile({edges_us}, counts, total, {q, needed}) {
  if (total < needed) return null;
  let upto = 0;
  const r = counts.findIndex(n => (upto += n) >= Math.ceil(q * total)), low = edges_us[r];
  return low + (edges_us[r + 1] - 0.001 - low) * (q * total - upto + counts[r]) / counts[r];
}

// A heat map's x, y (seconds), z (log10 of the density) and counts, bin by bin, of the part in view.
export function exact(cells, tier, per, [c0, c1], [r0, r1]) {
  const {row, count, starts} = cells.tiers.get(tier), {edges_us} = cells;
  // No rows below and above its I/Os: each costs time in every drawing.
  let lowest = r1, after = r0;
  for (const r of row.subarray(starts[c0], starts[c1])) {
    if (r >= r0 && r < r1) [lowest, after] = [Math.min(lowest, r), Math.max(after, r + 1)];
  }
  [r0, r1] = lowest < after ? [lowest, after] : [r0, r0 + 1];
  const unit = Array.from({length: r1 - r0}, (_, r) => {
    const low = edges_us[r0 + r], high = edges_us[r0 + r + 1];
    return per === "octave" ? Math.log2(high / low) : high - low;
  });
  const z = unit.map(() => new Float32Array(c1 - c0).fill(NaN));
  const customdata = unit.map(() => new Float64Array(c1 - c0));
  for (let c = c0; c < c1; c++) {
    const length = lengthOf(cells, [c, c + 1]);
    for (let n = starts[c]; n < starts[c + 1]; n++) {
      const r = row[n] - r0;
      if (r < 0 || r >= unit.length) continue;
      customdata[r][c - c0] = count[n];
      z[r][c - c0] = Math.log10(count[n] / length / unit[r]);
    }
  }
  const wait_s = Array.from(unit, (_, r) => (edges_us[r0 + r] + edges_us[r0 + r + 1] - 0.001) / 2e6);
  return {z, customdata, wait_s, x: Array.from({length: c1 - c0 + 1}, (_, n) => edgeOf(cells, c0 + n)),
    y: edges_us.slice(r0, r1 + 1).map(us => us / 1e6)};
}
