"""Power losses, and what they lost."""
