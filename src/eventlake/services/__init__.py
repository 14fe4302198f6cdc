"""The use cases, one function each, returning values: the CLI calls these and nothing else."""
