"""What a workload may ask for beside reads and writes: a folder each.

`judge.py` makes its part of summary.json, its outcomes and its sentences: a line in `reports.features.all`.
`section.py` is its part of the page, with template and figures: a line in `reports.features.sections`.
"""
