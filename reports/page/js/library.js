// plotly.js, and whose turn it is: each figure is drawn once, when it comes into view or is needed.
import {inflate} from "./encoding.js";
import {element} from "./page.js";

window.drawn = 0;
// By the element of a figure: its state, and the promise of its first drawing (`begun`).
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
export function begin(figure) {
  figure.begun ??= library.then(() => figure.first()).then(() => { window.drawn += 1; });
  return figure.begun;
}

// Draws it now: printing does not wait.
export function beginNow(figure) {
  figure.begun = Promise.resolve(figure.first()).then(() => { window.drawn += 1; });
}
