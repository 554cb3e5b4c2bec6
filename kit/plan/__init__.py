"""The plan: workload and testbed together, checked before any contact with a host. Pure.

kit.run executes it.
"""
