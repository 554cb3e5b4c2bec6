"""Runs against runs: whether they may be compared, and how they differ, with intervals.

The runs of one sweep are in reports.series.
"""
