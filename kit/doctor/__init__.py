"""`hsp host check`: checks whether a testbed is ready for a run, and what would distort its results.

Facts are read from each host and then judged. Nothing here changes a host.
"""
