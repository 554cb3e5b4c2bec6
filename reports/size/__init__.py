"""What a larger ARC, or an L2ARC, would answer: a miniature simulation of both (docs/size.md)."""
