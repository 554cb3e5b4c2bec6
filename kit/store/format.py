"""The version of the stored formats: `format` in manifest.json and summary.json.

History, the only one:
    1  first. Keys were added since, which older runs lack; readers have a default for each of them:
       manifest: ended, seed, notes, tracing, precondition, resumed, appliance, power_loss, events
       phase: unavailable, events, extremes, clients, machines, shares
       import: source, counts

A new key that old readers may ignore leaves the number. A key that changes its meaning raises it.
"""

from __future__ import annotations

FORMAT = 1
