"""A run: from a plan and a site to a run directory, phase by phase, with everything undone at the end.

Neither the lab nor the reports are known here.
"""
