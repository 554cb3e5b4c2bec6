"""From the files of one run to numbers and sentences: summary, bands, headline, findings, ageing.

Nothing is drawn here.
"""
