"""What kinds of load have counted in a phase."""
