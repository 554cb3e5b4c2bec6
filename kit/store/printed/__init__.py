"""What commands print as JSON, and other commands read."""
