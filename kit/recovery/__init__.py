"""Restores hosts after a run: the journal, the undo of each kind, `hsp clean`.

The steps of a run, and their order, are in kit.run.
"""
