"""OpenZFS on the server: pool, dataset, tunables, versions, scrub status.

The counters of a phase are in kit.instruments; the disks below the pool are in kit.devices.
"""
