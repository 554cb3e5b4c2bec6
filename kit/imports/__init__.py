"""Other people's latency data as a run: one module a format, `build` puts the run together.

Whatever the format, every row is counted or reported: the sum of the counts is the rows read less those
that are reported as left out. Memory does not grow with the size of a file.
"""
