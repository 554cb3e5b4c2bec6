"""Everything that touches machines."""

__version__ = "0.1.0"
