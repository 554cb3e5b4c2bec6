"""fio: on a client, on several at once, on a block device; its jobs, commands and output.

When a load runs is decided in kit.run and kit.precondition.
"""
