// Tables: sorted by the column whose head is chosen, and with the names of columns at each cell.

const UNITS = {ns: 1e-3, µs: 1, ms: 1e3, s: 1e6, "%": 1};

// A number, with one of these units or none; other text as it is.
const valueOf = (row, column) => {
  const cell = row.cells[column], text = cell.dataset.sort ?? cell.textContent.trim();
  const [digits, unit = "%", ...rest] = text.split(" "), number = Number(digits.replaceAll(",", ""));
  return digits && Number.isFinite(number) && UNITS[unit] && !rest.length ? number * UNITS[unit] : text;
};

// Numbers before words, what is missing last.
function compare(a, b) {
  if (a === "" || b === "") return (a === "") - (b === "");
  const numbers = (typeof b === "number") - (typeof a === "number");
  return numbers || (typeof a === "number" ? a - b : a.localeCompare(b));
}

function sort(table, column, head) {
  const body = table.tBodies[0], down = head.getAttribute("aria-sort") === "ascending";
  const rows = [...body.rows].map((row, place) => ({row, place, value: valueOf(row, column)}));
  rows.sort((a, b) => (down ? -1 : 1) * compare(a.value, b.value) || a.place - b.place);
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...rows.map(({row}) => row));
}

// On a phone a row is a card: each cell says of which column it is.
export function labelled() {
  for (const table of document.querySelectorAll(".table > table")) {
    const heads = [...table.tHead?.rows[0].cells ?? []].map(head => head.textContent);
    // Columns of cells that reach over rows are taken there.
    const taken = heads.map(() => 0);
    for (const row of [...table.tBodies].flatMap(body => [...body.rows])) {
      let column = 0;
      for (const cell of row.cells) {
        while (taken[column] > 0) taken[column++] -= 1;
        taken[column] = cell.rowSpan - 1;
        if (cell.colSpan === 1 && cell.tagName === "TD") cell.dataset.label = heads[column] ?? "";
        column += cell.colSpan;
      }
      while (column < taken.length) { taken[column] = Math.max(0, taken[column] - 1); column += 1; }
    }
    table.classList.add("labelled");
  }
}

export function sortable() {
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, column, head));
      head.append(button);
    });
  }
}
