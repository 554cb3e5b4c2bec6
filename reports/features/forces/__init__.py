"""Forced writes."""
