"""The guest image: built from Debian's packages, cached under a digest of its inputs, pruned."""
