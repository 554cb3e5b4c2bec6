"""Programs of a load, on the host that it runs on (kit.load)."""
