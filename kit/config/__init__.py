"""What a person writes: workloads, testbeds, tables, fio jobs. TOML in, frozen values out.

Mistakes are errors with file, line and key. Nothing here reaches a host.
"""
