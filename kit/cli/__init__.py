"""The command `hsp`: one command a file, and the table of them in `main`.

What a command does is in the other folders; here are its options and what it prints.
"""
