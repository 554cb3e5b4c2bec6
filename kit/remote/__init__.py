"""Programs that the kit sends to hosts and that run there, with the host's own Python (3.7 or later).

They import nothing of the kit. The module that sends a program is in the folder of its subject.
"""
