"""Declared faults and events."""
