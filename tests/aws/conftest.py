"""Every test here may ask for an AWS of its own, for a Glue that is strict, for a proxy."""

from tests.aws.glue import glue
from tests.aws.moto import aws
from tests.aws.proxy import proxy
from tests.aws.worlds import world
from tests.control.conftest import migrated_sqlite

__all__ = ["aws", "glue", "migrated_sqlite", "proxy", "world"]
