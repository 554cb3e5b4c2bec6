"""Emulated devices: models of disks, SSDs and controllers in C, the ublk server, presets.

The lab starts them, and so does `hsp device` on any host; the guest itself is in kit.lab.
"""
