"""The command line `hsp`: one file per command, and the table of commands in `main`.

Options and output only; the work is in the other folders.
"""
