"""Tables of workloads and testbeds, one a module."""
