"""Instruments of the machines: clocks, heat, use of CPUs and devices."""
