"""What figures show: matrices of heat maps, ranges, curves, marks, as values that the page draws."""
