"""Loads that start at set times, and the search for the rate up to which a limit is kept."""
