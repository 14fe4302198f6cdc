"""EventLake's code and all that it needs, as files in the lake's bucket that a cluster runs."""

import hashlib
import io
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import IO, NamedTuple

from isal import igzip

from eventlake.model.job import CODE
from eventlake.runners import entrypoint
from eventlake.stores import Store

PACKAGE = "eventlake"
EXTRA = "aws"
LEFT_OUT = frozenset(("pyspark", "py4j", "duckdb", "typer", "rich"))
"""Spark is the cluster's own; a job answers no queries and has no terminal."""
FRESH = timedelta(days=7)
"""The stage's objects expire after 14 days: what is older than this is put there again."""


class Code(NamedTuple):
    """The addresses of what a cluster runs."""

    entrypoint: str
    package: str
    """A zip that Spark unpacks: as a wheel among `--py-files`, only YARN would have it on the
    path before Spark's daemon of Python workers starts."""
    environment: str
    tag: str

    @property
    def archives(self) -> str:
        return f"{self.package}#code,{self.environment}#environment"

    @property
    def path(self) -> str:
        """The unpacked archives, seen from where a driver or an executor works."""
        return "./code:./environment"


def upload(store: Store) -> Code:
    """The code in the bucket; each version of it is put there once."""
    own = f"{CODE}/{_hash(_package_files())}"
    needed = f"{CODE}/{_environment_hash()}"
    return Code(
        entrypoint=_put(store, f"{own}/entrypoint.py", _write_entrypoint),
        package=_put(store, f"{own}/eventlake.zip", write_package),
        environment=_put(store, f"{needed}/environment.tar.gz", write_environment),
        tag=entrypoint.tag(),
    )


def _put(store: Store, path: str, write: Callable[[IO[bytes]], None]) -> str:
    known = store.find(path)
    if known is None or datetime.now(UTC) - known.modified > FRESH:
        with store.write_durably(path) as out:
            write(out)
    return store.uri(path)


def _write_entrypoint(out: IO[bytes]) -> None:
    out.write(Path(entrypoint.__file__).read_bytes())


def write_package(out: IO[bytes]) -> None:
    """EventLake itself, whether it was installed or is being worked on."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as package:
        for name, data in _package_files():
            package.writestr(name, data)
    out.write(whole.getvalue())


def _package_files() -> Iterator[tuple[str, bytes]]:
    root = Path(entrypoint.__file__).parents[1]
    for file in sorted(root.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file.relative_to(root.parent).as_posix(), file.read_bytes()
    own = metadata.distribution(PACKAGE)
    described = own.read_text("METADATA") or ""
    yield f"{PACKAGE}-{own.version}.dist-info/METADATA", described.encode()


def write_environment(out: IO[bytes]) -> None:
    """The packages that EventLake needs, in the versions that are installed here."""
    with (
        igzip.open(out, "wb", compresslevel=1) as packed,  # type: ignore[no-untyped-call]
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for distribution in needed().values():
            for name, file in _files(distribution):
                archive.add(file, name, recursive=False)


def _files(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """What an installed package consists of, but for commands, tests and compiled copies."""
    for name in distribution.files or ():
        passed_over = {"..", "__pycache__", "tests"}.intersection(name.parts)
        file = Path(str(name.locate()))
        if not passed_over and file.is_file():
            yield name.as_posix(), file


def needed() -> dict[str, metadata.Distribution]:
    """Every package that EventLake's job needs, by name, as far as this machine has it."""
    found: dict[str, metadata.Distribution] = {}
    asked = [(PACKAGE, frozenset((EXTRA,)))]
    while asked:
        name, extras = asked.pop()
        distribution = _installed(name)
        if distribution is None or name in found or name in LEFT_OUT:
            continue
        found[name] = distribution
        asked.extend(_requirements(distribution, extras))
    del found[PACKAGE]
    return dict(sorted(found.items()))


def _installed(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:  # needed on other systems only
        return None


_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w.-]+)['"]""")


def _requirements(
    distribution: metadata.Distribution, extras: frozenset[str]
) -> Iterator[tuple[str, frozenset[str]]]:
    for line in distribution.requires or ():
        told, _, marker = line.partition(";")
        extra = _EXTRA.search(marker)
        if extra is None or extra[1] in extras:
            name, more = _REQUIREMENT.match(told.strip()).groups()  # type: ignore[union-attr]
            yield _plain(name), frozenset(filter(None, re.split(r"[,\s]+", more or "")))


def _plain(name: str) -> str:
    """The one spelling of a package's name that counts."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _environment_hash() -> str:
    """Installed packages list their files with hashes: the lists tell environments apart."""
    lists = ((name, _list(found).encode()) for name, found in needed().items())
    return _hash([("tag", entrypoint.tag().encode()), *lists])


def _list(distribution: metadata.Distribution) -> str:
    return distribution.read_text("RECORD") or distribution.version


def _hash(parts: Iterator[tuple[str, bytes]] | list[tuple[str, bytes]]) -> str:
    whole = hashlib.sha256()
    for name, data in parts:
        whole.update(f"{name} {len(data)} ".encode() + data)
    return whole.hexdigest()[:16]
