"""Configuration files: workloads, testbeds, device models, fio jobs. TOML in, frozen values out.

A mistake is an error with file, line and key. Nothing here reaches a host.
"""
