"""Loads of hours, and what other loads do to them."""
