"""The command `hsp`: one command a file, and their table in `main`.

Here are options and printed text; the other folders do the work.
"""
