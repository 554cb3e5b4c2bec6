// The controls at the upper right of a figure: what its colours count, exact bins, saving.
import {draw} from "./figure.js";
import {element} from "./page.js";
import {saving} from "./saving.js";

export function controls(figure) {
  const isMap = figure.spec.data.some(trace => trace.type === "heatmap"), merges = figure.cells && isMap;
  const switches = merges ? [option(figure, "waited", "time waited"), option(figure, "exactly", "exact bins")]
    : [];
  return element("div", {className: "controls"}, ...switches, saving(figure));
}

// A box that is checked while `name` of the figure is true.
function option(figure, name, label) {
  const box = element("input", {type: "checkbox"});
  box.addEventListener("change", () => { figure[name] = box.checked; if (figure.begun) draw(figure); });
  return element("label", {}, box, ` ${label}`);
}
