"""What every other folder may use: errors, units, bins, clocks, safe text, progress, files.

Nothing here knows storage, hosts or runs, and nothing here imports another folder of the kit.
"""
