"""Objects on disk, and a store's refusals in our words."""

import os
from pathlib import Path

import pytest
from obstore import exceptions

from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings, Unavailable
from eventlake.stores import Disk, Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Disk(str(tmp_path / "lake"))


def test_a_folder_is_pruned_with_halves_of_objects_and_others_stay(store: Store) -> None:
    root = Path(store.root)
    (root / "a/empty/below").mkdir(parents=True)
    (root / "a/half#1").write_bytes(b"ha")
    store.write("ab/full/x", b"")
    store.remove_folder("a")
    assert not (root / "a").exists()
    assert store.exists("ab/full/x")
    store.remove_folder("nowhere")


# Refusals


@pytest.mark.parametrize(
    ("problem", "kind", "message"),
    [
        (
            PermissionError(13, "no"),
            InsufficientPermissions,
            "no permission to read x: grant it and run again",
        ),
        (
            exceptions.PermissionDeniedError("no"),
            InsufficientPermissions,
            "no permission to read x",
        ),
        (FileNotFoundError("x"), InvalidSettings, "cannot read x: it does not exist"),
        (OSError(28, "No space left on device"), Unavailable, "could not read x: .*No space left"),
        (exceptions.GenericError("boom\nand more"), Unavailable, "could not read x: boom$"),
    ],
)
def test_a_refusal_in_our_words(
    problem: Exception, kind: type[EventLakeError], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught, Disk("/").translate_errors("read", "x"):
        raise problem
    assert caught.value.__cause__ is problem


def test_our_own_errors_pass_through() -> None:
    ours = Unavailable("as it is")
    with pytest.raises(Unavailable) as caught, Disk("/").translate_errors("read", "x"):
        raise ours
    assert caught.value is ours


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_a_folder_that_may_not_be_written(store: Store) -> None:
    root = Path(store.root)
    store.write("a/b", b"")
    (root / "a").chmod(0o500)
    try:
        with pytest.raises(InsufficientPermissions, match="no permission to write a/c"):
            store.write("a/c", b"")
    finally:
        (root / "a").chmod(0o700)
