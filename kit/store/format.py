"""The versions of the stored formats: `format` in manifest.json and summary.json.

History, the only one, of both files:
    1  first. Keys were added since, which older runs lack; readers have a default for each of them:
       manifest: ended, seed, notes, tracing, precondition, resumed, appliance, power_loss, events,
                 observer_effect, host_settings
       phase: unavailable, events, extremes, sums, clients, machines, shares, client_log, parts, cpu,
              devices, arc
       a device of the testbed: settings
       import: source, counts
       summary: observer_effect, use
       a row of the summary: mean_us, interpolated
    2  manifest.json: each of `problems` is an object with `code` and `text`; checks have `instrument`.
       summary.json: `outcomes` takes the place of `causes`, which had what decides alone; 1 is not read.

A new key that old readers may ignore leaves the number. A key that changes its meaning raises it.
"""

from __future__ import annotations

SUMMARY_FORMAT = 2
MANIFEST_FORMAT = 2
# series.json: the build that measures the base once more, after all others.
AGAIN = "base-again"
