"""What programs print as a sum over I/Os: counts between two bounds, or a mean alone; one format a module."""
