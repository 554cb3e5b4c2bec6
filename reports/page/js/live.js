// The page of a run that goes on: each event of the server brings the figure and the numbers so far.
import {openCells} from "./cells.js";
import {inflate} from "./encoding.js";
import {draw, listenToTheme} from "./figure.js";
import {cursor} from "./keys.js";
import {begin, figures, openLibrary} from "./library.js";
import {announce, element} from "./page.js";
import {controls} from "./saving.js";

const target = document.getElementById("live-figure"), box = target.closest("figure");
const state = document.getElementById("live-state");
let figure = null, newest = null, isBusy = false;

function fill({title, progress, rows, problems}) {
  box.querySelector("h2").textContent = title;
  document.getElementById("live-progress").textContent = progress;
  document.getElementById("live-rows").replaceChildren(...rows.map(([name, ...texts]) => element("tr", {},
    element("th", {scope: "row", textContent: name}),
    ...texts.map(text => element("td", {className: "n", textContent: text})))));
  document.getElementById("live-problems").replaceChildren(
    ...problems.map(text => element("li", {textContent: text})));
}

async function show(message) {
  const {figure: {cells: raw, caption, ...spec}} = message, cells = await openCells(raw);
  const isNew = figure?.spec.title !== spec.title;
  if (isNew) {
    box.querySelector(".controls")?.remove();
    const link = {name: "", range: null, band: null, view: null, waited: figure?.link.waited};
    figure = {target, link, at: null, first: () => draw(figure)};
    announce(`${spec.title} has begun`);
  }
  Object.assign(figure, {spec, cells, caption});
  fill(message);
  if (!isNew) {
    if (figure.begun) await draw(figure);
    return;
  }
  const already = figures.size > 0;
  figures.clear();
  figures.set(target, figure);
  box.prepend(controls(figure));
  target.setAttribute("aria-label", spec.title);
  if (!already) cursor({target, get at() { return figure.at; }, set at(cell) { figure.at = cell; }});
  await begin(figure);
}

// A slow browser leaves out what is old.
async function showNewest() {
  if (isBusy) return;
  isBusy = true;
  while (newest) {
    const packed = newest;
    newest = null;
    await show(JSON.parse(new TextDecoder().decode(await inflate(packed))));
  }
  isBusy = false;
}

function say(text, tone = "") {
  state.textContent = text;
  state.className = `chip ${tone}`;
}

listenToTheme();
const events = new EventSource("events");
events.addEventListener("open", () => say("Running", "valid"));
events.addEventListener("phase", ({data}) => { newest = data; showNewest(); });
events.addEventListener("error", () => say("No connection to hsp show --live", "unknown"));
events.addEventListener("end", ({data}) => {
  events.close();
  if (data === "finished") location.reload();
  else {
    say("Killed", "invalid");
    document.getElementById("live-killed").hidden = false;
  }
});
await openLibrary();
