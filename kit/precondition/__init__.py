"""Preconditioning a device (SNIA): purge, fills, rounds until steady state, the proof and the latency curve.

The table [precondition] of a workload is in kit.config.
"""
