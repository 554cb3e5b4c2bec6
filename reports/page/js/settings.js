// Settings from Python: colours, percentiles with the sample each needs, narrow bins.
const settings = JSON.parse(document.getElementById("page-settings").textContent);

export const PALETTE = settings.palette;
// Of each {name, q, needed}: the fewest I/Os that bound the q-quantile from above.
export const QUANTILES = settings.quantiles;
// A bin of the kit is 1 ns wide, or at most this part of its lower edge.
export const NARROW = settings.narrow;
