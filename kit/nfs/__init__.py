"""NFS: the export on the server, the mounts on the clients, libnfs, a directory in somebody else's export.

What a mount counted is in kit.instruments.
"""
