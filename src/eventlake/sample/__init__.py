"""Realistic Segment events of a shop, for demos, tests and benchmarks."""

from eventlake.sample.spec import SampleSpec, SampleSummary
from eventlake.sample.write import make_sample

__all__ = ["SampleSpec", "SampleSummary", "make_sample"]
