"""What the tracer costs."""
