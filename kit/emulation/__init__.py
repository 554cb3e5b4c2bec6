"""Emulated devices: models of disks, SSDs and controllers in C, the ublk server, presets.

The lab and `hsp lab up --here` start them. The lab's guest is in kit.lab.
"""
