"""Preconditioning of a device (SNIA): purge, fills, rounds until steady state, proof, latency curve.

The table [precondition] of a workload is in kit.config.
"""
