"""Other people's measurements, as counts per bin. One format a module; `run` puts them together.

A reader takes a `Source` (one file) and a `Tally` (all files), adds every row to the tally, and says in
the file's `Account` what it left out. It raises ConfigError, with file and line, for damage.
"""
