"""Other programs' measurements, as counts per bin: one format a module; `run` makes the run directory.

What an imported run looks like is in reports/.
"""
