"""Runs over days and versions on one time axis: what changed, where figures moved, which checks failed.

Two sides of runs are compared in reports.comparison; the cells of one sweep in reports.series.
"""
