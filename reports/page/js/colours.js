// From the value of a cell to its colour: where it lies on the scale, and what the colour bar says.
import {PALETTE} from "./settings.js";
import {chosen, theme} from "./page.js";

// No scale of I/Os is shorter, in powers of ten: one that ends at one or two I/Os would be all colours.
export const LEAST_SPAN = 0.31;
const TICKS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 1e4, 1e5, 1e6];

// What is coloured of a count of I/Os.
export const shadeOf = Math.log10;
// And of a difference: a root of both signs. A linear scale would show the one cell that differs most.
export const shadeOfDifference = value => Math.sign(value) * Math.sqrt(Math.abs(value));

export function ticksOf(low, top) {
  const shown = TICKS.filter(v => shadeOf(v) >= low - 1e-9 && shadeOf(v) <= top + 1e-9);
  return {tickvals: shown.map(shadeOf), ticktext: shown.map(String)};
}

export function ticksOfDifference(most) {
  const steps = [-1, -0.25, 0, 0.25, 1], text = v => (v > 0 ? "+" : "") + Number(v.toPrecision(3));
  return {tickvals: steps.map(s => shadeOfDifference(s * most)), ticktext: steps.map(s => text(s * most))};
}

const scaled = colours => colours.map((colour, n) => [n / (colours.length - 1), colour]);
export const shades = () => theme()[chosen("palette", "classic")];
export const shadeScale = () => scaled(shades());
export const differenceScale = () => scaled(theme().difference);

// What a few I/Os of a tier look like on the paper, and what many do.
export function hue(tier, colours) {
  const [few, many] = PALETTE.hues[chosen("palette", "classic")][tier] || PALETTE.hues.other;
  return colours === PALETTE.dark ? [many, few] : [few, many];
}
