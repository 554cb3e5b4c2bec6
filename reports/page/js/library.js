// plotly.js, and whose turn it is: each figure is drawn once, when it comes into view or is needed.
import {inflate} from "./encoding.js";
import {element, isPrinting} from "./page.js";

window.drawn = 0;
// By the element of a figure: what draws it first, what draws it again, and the promise of the first.
export const figures = new Map();

let opened = null;
const library = new Promise(resolve => { opened = resolve; });

export async function openLibrary() {
  const code = document.getElementById("plotly-code"), packed = code.textContent;
  code.remove();
  const text = new TextDecoder().decode(await inflate(packed));
  // What is there already is painted before this, which takes the longest.
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  document.head.append(element("script", {textContent: text}));
  opened();
}

// The figure is drawn, or is being drawn: a promise. The first caller begins it.
export function begin(target) {
  const figure = figures.get(target);
  figure.begun ??= library.then(() => figure.first()).then(() => { window.drawn += 1; });
  return figure.begun;
}

// Draws it now, with or without the library: printing does not wait.
export function beginNow(figure) {
  figure.begun = Promise.resolve(figure.first()).then(() => { window.drawn += 1; });
}

// Buttons of Plotly that a figure does without.
export function plot(target, traces, layout, without) {
  if (isPrinting()) Object.assign(layout, {width: 980, autosize: false});
  return Plotly.react(target, traces, layout, {
    responsive: true, displaylogo: false, scrollZoom: false,
    // "Share chart..." would post the figure to a server from a new window, past this page's policy.
    showSendToCloud: false, plotlyServerURL: "",
    modeBarButtonsToRemove: without,
  });
}
