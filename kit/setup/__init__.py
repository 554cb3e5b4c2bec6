"""Before the first phase: the site, and pool, export, mounts and devices made ready on it.

Each thing has its undo in the journal before it is made. No load is measured here.
"""
