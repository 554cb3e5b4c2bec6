"""NFS: exports of the server, mounts of the clients, libnfs, a run's directory on an appliance.

The statistics of mounts are in kit.instruments.
"""
