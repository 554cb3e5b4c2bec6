"""Real disks: what a host has, why one may not be used, locks while one is used, the explicit wipe.

Emulated devices are in kit.emulation; ageing is in kit.precondition.
"""
