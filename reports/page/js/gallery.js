// The page of `hsp gallery`: rows that the filters leave, sorted by any column.
import {labelled, sortable} from "./sorting.js";

const filters = document.getElementById("filters"), wishes = [...filters.querySelectorAll("[data-column]")];
const parts = [...document.querySelectorAll("table.sortable > tbody")];
const all = document.querySelectorAll("[data-row]").length;

const fits = (cell, {value, type}) => value === "" || (type === "number"
  ? cell.dataset.sort !== "" && Number(cell.dataset.sort) <= Number(value) : cell.textContent === value);

function filter() {
  for (const row of document.querySelectorAll("[data-row]")) {
    row.hidden = !wishes.every(wish => fits(row.cells[wish.dataset.column], wish));
  }
  for (const part of parts) part.hidden = !part.querySelector("[data-row]:not([hidden])");
  const left = document.querySelectorAll("[data-row]:not([hidden])").length;
  document.getElementById("shown").textContent = `${left} of ${all} rows`;
}

labelled();
sortable();
filters.addEventListener("input", filter);
document.getElementById("all").addEventListener("click", () => {
  for (const wish of wishes) wish.value = "";
  filter();
});
// A browser may keep what was chosen before a reload.
filter();
filters.hidden = false;
