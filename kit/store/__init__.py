"""The run directory: its files, their schemas and their checks.

The only folder beside kit.core that reports/ imports. What a run does is not here.
"""
