"""A server that people already have: which tier answers, and what that costs (docs/observe.md)."""
