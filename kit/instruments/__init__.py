"""What is read around a phase: counters, other activity, the health and clocks of hosts.

The tracer is in kit.trace; the load that is measured is in kit.load.
"""
