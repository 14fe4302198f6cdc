"""Names of the objects in a run's stage; each is new, so that a task may run twice."""

import uuid
from collections.abc import Iterable


def new_path(folder: str, label: object, suffix: str = "") -> str:
    """Return a path in `folder` that begins with `label` and that no other call returns."""
    return f"{folder}/{label}-{uuid.uuid4().hex}{suffix}"


def new_path_with_rows(folder: str, label: object, rows: int, suffix: str) -> str:
    """Do `new_path` with the number of rows in the name, where `count_rows` finds it."""
    return new_path(folder, label, f"-{rows}{suffix}")


def count_rows(paths: Iterable[str]) -> int:
    """Sum the rows of objects named by `new_path_with_rows`, by their names only."""
    names = (path.rpartition(".")[0] for path in paths)
    return sum(int(name.rpartition("-")[2]) for name in names)
