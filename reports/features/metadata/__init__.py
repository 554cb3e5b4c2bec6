"""Files and directories over NFS: each operation with its tier."""
