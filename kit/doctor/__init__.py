"""`hsp doctor`: whether a testbed can be measured on, and what would put its numbers off."""
