"""Where the time of requests goes."""
