// The controls at the upper right of a figure: what its colours count, exact bins, saving.
import {element} from "./page.js";
import {saving} from "./saving.js";
import {turn} from "./selection.js";

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
