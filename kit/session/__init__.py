"""The work of `hsp demo` and `hsp run` around a run: place, measurement, report, verdict, repeats.

Commands and their options are in kit.cli.
"""
