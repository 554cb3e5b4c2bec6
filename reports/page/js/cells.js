"use strict";
// Counts per time and latency as the page holds them, and what is computed from them. No drawing here.
// The 85 digits of packing.py: printable, without what means something in HTML or JSON.
const DIGITS = new Uint8Array(128);
for (let code = 33, n = 0; n < 85; code++) if (!"\"&'<>\\`".includes(String.fromCharCode(code))) DIGITS[code] = n++;

function bytesOf(text) {
  const bytes = new Uint8Array(Math.ceil(text.length / 5) * 4), view = new DataView(bytes.buffer);
  for (let n = 0, at = 0; n < text.length; n += 5, at += 4) {
    let word = 0;
    for (let k = n; k < n + 5; k++) word = word * 85 + (k < text.length ? DIGITS[text.charCodeAt(k)] : 84);
    view.setUint32(at, word);
  }
  return bytes.subarray(0, Math.floor(text.length * 4 / 5));
}

async function inflate(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

// Seven bits a byte, the lowest first.
async function numbers(text) {
  const bytes = new Uint8Array(await inflate(text)), found = new Float64Array(bytes.length);
  let length = 0, value = 0, factor = 1;
  for (const byte of bytes) {
    value += (byte & 127) * factor;
    if (byte > 127) factor *= 128; else { found[length++] = value; value = 0; factor = 1; }
  }
  return found.subarray(0, length);
}

// Of each tier: starts[c] to starts[c + 1] are the entries of column c; row and count of each entry.
async function openCells(raw) {
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
function summed(cells, tiers, first, last) {
  const total = new Float64Array(cells.rows);
  for (const name of tiers) {
    const {row, count, starts} = cells.tiers.get(name);
    for (let n = starts[first]; n < starts[last]; n++) total[row[n]] += count[n];
  }
  return total;
}

function totalOf(counts) {
  let total = 0;
  for (const n of counts) total += n;
  return total;
}

// The fewest I/Os that bound the q-quantile from above with 97.5 % confidence, as in the summary.
function sampleNeeded(q) {
  return Math.ceil(Math.log(0.025) / Math.log(q));
}

// In microseconds; null where the sample is too small. As in the summary: the middle of the whole nanoseconds
// of a bin as narrow as the kit's, which is at most 1/64 off; wider bins are interpolated.
function percentile(cells, counts, total, q) {
  if (total < sampleNeeded(q)) return null;
  let seen = 0, last = null;
  for (let r = 0; r < counts.length; r++) {
    if (!counts[r]) continue;
    const low = cells.edges_us[r], high = cells.edges_us[r + 1];
    if (seen + counts[r] >= q * total) {
      const narrow = high - low <= Math.max(0.001, low / 32) * (1 + 1e-9);
      return narrow ? (low + high - 0.001) / 2 : low + (high - low) * (q * total - seen) / counts[r];
    }
    seen += counts[r];
    last = high;
  }
  return last;
}

// Percentiles per `width` columns: times in seconds, and microseconds or null per quantile. Each has two
// points, the ends of its columns, so that one between two gaps is seen.
function overTime(cells, tiers, width, quantiles) {
  const times = [], lines = quantiles.map(() => []);
  for (let c = 0; c < cells.columns; c += width) {
    const last = Math.min(c + width, cells.columns);
    const counts = summed(cells, tiers, c, last), total = totalOf(counts);
    times.push(c * cells.width_s, last * cells.width_s);
    quantiles.forEach((q, n) => {
      const value = percentile(cells, counts, total, q);
      lines[n].push(value, value);
    });
  }
  return {times, lines};
}

// As many columns together as it takes for a p99 where the load is even, but eight windows at least.
function windowOf(cells, tiers) {
  const mean = totalOf(summed(cells, tiers, 0, cells.columns)) / cells.columns;
  const most = Math.max(1, Math.floor(cells.columns / 8)), least = cells.columns / 1200;
  for (const width of [1, 2, 5, 10, 20, 30, 60, 120, 300, 600]) {
    if (width >= least && mean * width >= 1.3 * sampleNeeded(0.99)) return Math.min(width, most);
  }
  return most;
}

// The rows that hold an I/O of these tiers, as [first, last).
function usedRows(cells, tiers) {
  const counts = summed(cells, tiers, 0, cells.columns);
  let first = counts.findIndex(n => n > 0), last = counts.length;
  if (first < 0) return [0, 0];
  while (!counts[last - 1]) last -= 1;
  return [first, last];
}

// Matrix of log10(count) of rows [r0, r1) and columns [c0, c1), `merge` columns in one; NaN without I/O.
function matrix(cells, tiers, [r0, r1], c0, c1, merge) {
  const width = Math.ceil((c1 - c0) / merge);
  const z = Array.from({length: r1 - r0}, () => new Float32Array(width));
  for (const name of tiers) {
    const {row, count, starts} = cells.tiers.get(name);
    for (let c = c0; c < c1; c++) {
      const at = Math.floor((c - c0) / merge);
      for (let n = starts[c]; n < starts[c + 1]; n++) {
        if (row[n] >= r0 && row[n] < r1) z[row[n] - r0][at] += count[n];
      }
    }
  }
  let top = 0;
  for (const line of z) {
    for (let n = 0; n < width; n++) {
      if (line[n] > top) top = line[n];
      line[n] = line[n] ? Math.log10(line[n]) : NaN;
    }
  }
  return {z, top: top ? Math.log10(top) : 0};
}

// Text that a spreadsheet does not take for a formula, quoted where CSV asks for it.
function csvCell(value) {
  if (typeof value === "number") return String(value);
  let text = String(value ?? "");
  const mark = /^(?:[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20])/.test(text) ? "'" : "";
  text = mark + text.replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, "?");
  return /[",]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

function csvText(rows) {
  return rows.map(row => row.map(csvCell).join(",") + "\r\n").join("");
}
