"""What the network takes of a client's latency."""
