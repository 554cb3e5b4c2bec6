"""The guest image: built once from Debian's packages, cached under a digest of its inputs, pruned."""
