"""A run that goes on, looked at: on the terminal, and in a browser."""
