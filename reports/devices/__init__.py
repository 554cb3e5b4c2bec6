"""What the phases on bare devices say beside one another: sentences and values. Pure.

Drives alone and together, arrays beside their drives, prices. Drawing is in reports.figures.
"""
