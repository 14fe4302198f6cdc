"""Realistic Segment events of a shop, for demos, tests and benchmarks."""
