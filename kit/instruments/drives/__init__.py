"""What drives say of themselves before and after a phase: heat, errors, and the speed of their links."""
