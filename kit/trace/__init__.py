"""The tracer: bpftrace programs for nfsd and ZFS, phase marks, output, and the tier of each request.

Counters that need no tracing are in kit.instruments.
"""
