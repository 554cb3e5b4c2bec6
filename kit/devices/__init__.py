"""Real disks: the disks of a host, reasons not to use one, locks, `hsp host wipe`.

Emulated devices are in kit.emulation; preconditioning is in kit.precondition.
"""
