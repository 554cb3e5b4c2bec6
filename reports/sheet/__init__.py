"""The buyer's sheet: candidates held against a need, a line at a time, and one sentence each. Pure."""
