"""The power of a server or its devices is cut, or the server restarted; what is left of it."""
