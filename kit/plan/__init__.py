"""The plan: workload and testbed put together and checked, before anything is touched. Pure.

Carrying it out is in kit.run.
"""
