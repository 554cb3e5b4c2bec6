"""Statistics of latency histograms: quantiles, modes, bands, ratios. Pure, and without a run's files."""
