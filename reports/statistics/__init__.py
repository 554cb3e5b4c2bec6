"""Statistics of latency histograms: quantiles, modes, bands, bootstrap. Pure, and without a run's files."""
