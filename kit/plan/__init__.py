"""The plan: workload and testbed together, checked, and the steps of its run as values. Pure.

No contact with a host: kit.run performs the steps.
"""
