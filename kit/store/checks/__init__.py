"""What a verdict rests on: stable ids of checks, and failures that are known."""
