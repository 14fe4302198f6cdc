"""A lake in a folder on disk, with a catalog of files."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from eventlake.catalogs.files import FilesCatalog
from eventlake.errors import InvalidSettings
from eventlake.lake import Lake
from eventlake.lakes.formats import make_format
from eventlake.lakes.kinds import LakeKind
from eventlake.lakes.local_settings import LocalSettings
from eventlake.paths import file_status, parse_path
from eventlake.secrets import Secrets
from eventlake.stores import Disk, Store


@dataclass(frozen=True)
class LocalKind(LakeKind):
    """A lake on disk: runs are in this process, because a cluster cannot reach the folder."""

    settings: LocalSettings
    secrets: Secrets

    def open_store(self, *, make: bool) -> Store:
        text = self.settings.path
        path = parse_path(text, "lake")
        if file_status(path) is None:
            _check_links(path, text)
        root = path.resolve()  # `x/../lake` works even without x
        status = file_status(root)
        if status is None and not make:
            raise InvalidSettings(f"lake is {text!r}: no such folder")
        if status and not stat.S_ISDIR(status.st_mode):
            kind = "a file" if stat.S_ISREG(status.st_mode) else "not a folder"
            raise InvalidSettings(f"lake is {text!r}: it is {kind}, and a lake is a folder")
        return Disk(str(root))

    def make_lake(self, store: Store) -> Lake:
        catalog = FilesCatalog(store)
        return Lake(store=store, catalog=catalog, format=make_format(self.settings, store))

    def job_runner(self, store: Store, *, temporary: bool) -> None:  # noqa: ARG002 - as the interface
        return None

    def cluster_checks(self) -> tuple[()]:
        return ()


def _check_links(path: Path, text: str) -> None:
    """Raise InvalidSettings for a path below a file or a dangling link, as of an unmounted disk."""
    existing = next(one for one in (path, *path.parents) if os.path.lexists(one))
    name = "it" if existing == path else str(existing)
    if file_status(existing) is None:
        raise InvalidSettings(
            f"lake is {text!r}: {name} is a link to {existing.readlink()}, which does not exist"
        )
    if not existing.is_dir():
        raise InvalidSettings(f"lake is {text!r}: {name} is a file, and a lake is a folder")
