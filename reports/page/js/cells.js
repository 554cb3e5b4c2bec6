// Counts per time and latency as the page holds them, and what is computed from them. No drawing here.
import {numbers} from "./encoding.js";
import {NARROW, QUANTILES} from "./settings.js";

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

// I/Os per row of some tiers in the columns from `first` up to, not including, `last`.
export function summed(cells, tiers, first, last) {
  const total = new Float64Array(cells.rows);
  for (const name of tiers) {
    const {row, count, starts} = cells.tiers.get(name);
    for (let n = starts[first]; n < starts[last]; n++) total[row[n]] += count[n];
  }
  return total;
}

export function totalOf(counts) {
  let total = 0;
  for (const n of counts) total += n;
  return total;
}

// In microseconds; null where the sample is too small. As reports/statistics/quantiles.py: the middle of the
// whole nanoseconds of a bin as narrow as the kit's, which is at most 1/64 off; wider bins are interpolated.
export function percentile(cells, counts, total, {q, needed}) {
  if (total < needed) return null;
  let seen = 0, last = null;
  for (let r = 0; r < counts.length; r++) {
    if (!counts[r]) continue;
    const low = cells.edges_us[r], high = cells.edges_us[r + 1];
    if (seen + counts[r] >= q * total) {
      const narrow = high - low <= Math.max(0.001, low * NARROW) * (1 + 1e-9);
      return narrow ? (low + high - 0.001) / 2 : low + (high - low) * (q * total - seen) / counts[r];
    }
    seen += counts[r];
    last = high;
  }
  return last;
}

// Percentiles per `width` columns: times in seconds, and microseconds or null per quantile. Each has two
// points, the ends of its columns, so that one between two gaps is seen.
export function overTime(cells, tiers, width, quantiles) {
  const times = [], lines = quantiles.map(() => []);
  for (let c = 0; c < cells.columns; c += width) {
    const last = Math.min(c + width, cells.columns);
    const counts = summed(cells, tiers, c, last), total = totalOf(counts);
    times.push(c * cells.width_s, last * cells.width_s);
    quantiles.forEach((quantile, n) => {
      const value = percentile(cells, counts, total, quantile);
      lines[n].push(value, value);
    });
  }
  return {times, lines};
}

// Columns that can be taken together.
export const WINDOWS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600];

// As many columns together as it takes for a p99 where the load is even, but eight windows at least.
export function windowOf(cells, tiers) {
  const mean = totalOf(summed(cells, tiers, 0, cells.columns)) / cells.columns;
  const most = Math.max(1, Math.floor(cells.columns / 8)), least = cells.columns / 1200;
  const {needed} = QUANTILES.find(({name}) => name === "p99");
  const width = WINDOWS.find(columns => columns >= least && mean * columns >= 1.3 * needed);
  return width ? Math.min(width, most) : most;
}

// The rows that hold an I/O of these tiers, as [first, last).
export function usedRows(cells, tiers) {
  const counts = summed(cells, tiers, 0, cells.columns);
  const first = counts.findIndex(n => n > 0);
  let last = counts.length;
  if (first < 0) return [0, 0];
  while (!counts[last - 1]) last -= 1;
  return [first, last];
}

// A tier without any I/O has no entry: all its columns are empty.
const NONE = {row: [], count: [], starts: []};

// The values of a heat map: rows [r0, r1) of columns [c0, c1), `merge` columns in one; NaN without I/O.
// `weights` has [tier, weight] for what is added up: a cell's I/Os times the weight of their tier.
export function matrix(cells, weights, [r0, r1], c0, c1, merge) {
  const width = Math.ceil((c1 - c0) / merge);
  const values = Array.from({length: r1 - r0}, () => new Float64Array(width).fill(NaN));
  for (const [name, weight] of weights) {
    const {row, count, starts} = cells.tiers.get(name) ?? NONE;
    for (let c = c0; c < c1; c++) {
      const at = Math.floor((c - c0) / merge);
      for (let n = starts[c]; n < starts[c + 1]; n++) {
        if (row[n] < r0 || row[n] >= r1) continue;
        const line = values[row[n] - r0], before = line[at];
        line[at] = (before === before ? before : 0) + weight * count[n];
      }
    }
  }
  return values;
}

// The largest of the values' sizes; 0 where there is none.
export function largest(values) {
  let most = 0;
  for (const line of values) {
    for (let n = 0; n < line.length; n++) if (Math.abs(line[n]) > most) most = Math.abs(line[n]);
  }
  return most;
}
