"""How an L2ARC gets warm, and what it is worth after an import."""
