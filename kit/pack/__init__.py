"""Packs: a stored result as one file, without the names of whose it is (docs/pack.md)."""
