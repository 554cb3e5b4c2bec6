"""fio on a client, on several clients together, on a block device: jobs, commands, output.

kit.run and kit.precondition decide when a load runs.
"""
