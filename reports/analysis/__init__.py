"""From the files of a run to numbers and verdicts: summary, expectations, bands, comparison, ageing.

Nothing is drawn here.
"""
