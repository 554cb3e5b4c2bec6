// What is chosen above a heat map: tiers, colours, percentiles, events, the axis of latency.
import {WINDOWS} from "./cells.js";
import {downloads} from "./downloads.js";
import {draw} from "./figure.js";
import {element, seconds} from "./page.js";
import {rowsOf, tell} from "./range.js";

function check(state, label, read, write, disabled = false) {
  const box = element("input", {type: "checkbox", checked: read(), disabled});
  box.addEventListener("change", () => { write(box.checked); tell(state); draw(state); });
  return element("label", {}, box, ` ${label}`);
}

function choice(state, label, options, value, write) {
  const option = ([v, text]) => element("option", {value: v, textContent: text});
  const list = element("select", {}, ...options.map(option));
  list.value = value;
  list.addEventListener("change", () => { write(list.value); draw(state); });
  return element("label", {}, `${label} `, list);
}

function tierBoxes(state) {
  const {spec} = state;
  const boxes = spec.tiers.map(t => check(state, t, () => true, on => {
    // In the order of the list, whatever the order of the clicks.
    const wanted = new Set(state.tiers);
    if (on) wanted.add(t); else wanted.delete(t);
    state.tiers = new Set(spec.tiers.filter(name => wanted.has(name)));
  }));
  if (!spec.lines) boxes.push(check(state, "by colour", () => false, on => { state.byTier = on; }));
  return element("fieldset", {className: "group"}, element("legend", {textContent: "Tiers"}), ...boxes);
}

function timeControls(state) {
  const {cells} = state, widths = WINDOWS.filter(w => w < cells.columns);
  const named = [["0", "auto"], ...widths.map(w => [String(w), `${seconds(w * cells.width_s)} s`])];
  return [choice(state, "per", named, "0", v => { state.window = Number(v); }),
    check(state, `events (${cells.events.length})`, () => state.events, on => { state.events = on; },
      !cells.events.length)];
}

export function controls(state) {
  const {spec, target} = state, bar = element("div", {className: "controls"});
  if (spec.tiers.length > 1) bar.append(tierBoxes(state));
  const scales = [["log", "logarithmic"], ["linear", "linear"]];
  bar.append(
    element("span", {className: "group"},
      check(state, "percentiles", () => state.lines, on => { state.lines = on; }),
      ...(spec.histogram ? [] : timeControls(state)),
      choice(state, "latency", scales, state.scale, v => { state.scale = v; state.viewY = null; })),
    downloads(target, spec.title, () => rowsOf(state)));
  return bar;
}
