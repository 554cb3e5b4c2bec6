"""Looking at a server that people already have: nothing of it is changed (docs/observe.md).

The tracer of a run counts requests by file system, too. Pools and log devices are read there.
"""
