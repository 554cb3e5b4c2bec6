"""A bare device as a log device."""
