"""One door to machines: run a command, start one, copy a file; local, SSH, sudo, namespaces.

What the commands mean (pools, mounts, fio) is in the folders that call it.
"""
