"""What a user who is not root may do, also where the tests run as root."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

NOBODY = 65534


@contextmanager
def unprivileged() -> Iterator[None]:
    """Give up root's right to read everything, until the end of the block."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter and change, which pytest's own are not."""
    folder = Path(mkdtemp(prefix="eventlake-test-"))
    folder.chmod(0o777)
    try:
        yield folder.resolve()
    finally:
        shutil.rmtree(folder)
