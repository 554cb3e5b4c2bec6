"""From the sweep of a workload to cells and builds."""
