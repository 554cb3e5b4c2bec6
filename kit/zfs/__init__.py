"""OpenZFS on the server: pool, dataset, tunables, versions, scrub status.

Counters that are read around a phase are in kit.instruments; the disks below are in kit.devices.
"""
