"""What `hsp demo` and `hsp run` do around a run: find the place, measure, draw, judge, repeat.

Commands and their options are in kit.cli.
"""
