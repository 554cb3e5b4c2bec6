// The buttons that save a figure: PNG, SVG, and its numbers as CSV.
import {csvText} from "./csv.js";
import {begin} from "./library.js";
import {element} from "./page.js";

function save(name, rows) {
  const address = URL.createObjectURL(new Blob(["\ufeff", csvText(rows)], {type: "text/csv"}));
  element("a", {href: address, download: `${name}.csv`}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function fileName(title) {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "figure";
}

export function downloads(target, title, rows) {
  const picture = format => async () => {
    await begin(target);
    await Plotly.downloadImage(target, {format, filename: fileName(title), height: target.clientHeight,
      width: Math.max(target.clientWidth, 900), scale: format === "png" ? 2 : 1});
  };
  const button = (label, work) => element("button", {type: "button", textContent: label, onclick: work,
    "aria-label": `Save as ${label}: ${title}`});
  return element("span", {className: "group"}, button("PNG", picture("png")), button("SVG", picture("svg")),
    button("CSV", () => save(fileName(title), rows())));
}
