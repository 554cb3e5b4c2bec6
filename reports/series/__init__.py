"""From the runs of a series to its cells, ratios, drift, verdict and words.

Nothing is drawn here. What one run says is in `reports.analysis`.
"""
