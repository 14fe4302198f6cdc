"""Every test here may ask for an AWS of its own, and for a Glue that is strict."""

from tests.aws.glue import glue
from tests.aws.moto import aws

__all__ = ["aws", "glue"]
