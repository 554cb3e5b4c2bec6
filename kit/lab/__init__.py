"""The built-in lab: guest image, guest, clients, and saved guests that labs resume.

Emulated devices are in kit.emulation. For a run, the lab is a site like any other.
"""
