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

export function csvText(rows) {
  return rows.map(row => row.map(csvCell).join(",") + "\r\n").join("");
}
