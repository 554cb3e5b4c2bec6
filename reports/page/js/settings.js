// Settings from Python: themes, percentiles with the sample each needs, the stamp of exports.
const settings = JSON.parse(document.getElementById("page-settings").textContent);

export const THEMES = settings.themes;
// Of each {name, q, needed}: the fewest I/Os that bound the q-quantile from above.
export const QUANTILES = settings.quantiles;
// Run, verdict, publication and version, in lines: what a figure needs to stand alone.
export const STAMP = settings.stamp;
// What the names of saved files begin with; empty on a page of several runs.
export const RUN = settings.run;
