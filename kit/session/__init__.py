"""Sessions of `hsp demo` and `hsp run`: prepare a site, measure, draw, judge, repeat, compare.

Commands and their options are in kit.cli.
"""
