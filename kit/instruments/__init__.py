"""Instruments of a phase: counters, other activity, health and clocks of hosts.

The tracer is in kit.trace, the load in kit.load.
"""
