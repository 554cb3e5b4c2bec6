"""What a person agrees to before it is done: erasing, commands of a testbed, a run of somebody else."""
