"""The built-in lab: its image, its guest, its clients, and warm guests that labs resume.

Emulated devices are in kit.emulation. To a run the lab is a site like any other.
"""
