"""Packs of many people together."""
