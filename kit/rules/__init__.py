"""What of workload, jobs and testbed cannot work, or cannot be measured: refused with file and line. Pure.

Each module yields problems; `combination` and `limits` collect them. What a run would do is in `kit.plan`.
"""
