"""Settings of every test."""

from hypothesis import settings

# How long one example takes says something about the machine, not about the code.
settings.register_profile("kit", deadline=None)
settings.load_profile("kit")
