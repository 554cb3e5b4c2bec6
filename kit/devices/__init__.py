"""Real disks: what a host has, why one may not be used, locks while one is used, the explicit wipe.

What cannot be determined is refused, and nothing here can be forced.
"""
