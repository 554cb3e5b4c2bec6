"""How much each tier holds: a model of the ARC's memory, and sizes left to the plan. Pure."""
