"""Open loops, and the rate up to which a limit is kept."""
