"""Uploads EventLake's code and its dependencies to the lake's bucket, for clusters to run."""

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import IO, NamedTuple

from isal import igzip
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.runners import entrypoint
from eventlake.stores import Store

PACKAGE = "eventlake"
EXCLUDED = frozenset(("pyspark", "py4j", "duckdb", "typer", "rich"))
"""Packages that jobs do not use, and Spark, which the cluster has."""
MAX_AGE = timedelta(days=7)
"""Older uploads are repeated: objects of the stage expire after 14 days."""


Packages = Mapping[str, metadata.Distribution]
"""Installed packages by name."""


class Code(NamedTuple):
    """The addresses of the uploaded code."""

    entrypoint: str
    package: str
    """A zip for `--archives`: with `--py-files`, only YARN has it on the path before Spark's Python
    worker daemon starts."""
    environment: str
    tag: str

    @property
    def archives(self) -> str:
        return f"{self.package}#code,{self.environment}#environment"

    @property
    def path(self) -> str:
        """PYTHONPATH of the unpacked archives, relative to the working directory."""
        return "./code:./environment"


def upload(store: Store, extras: Collection[str], clock: Clock = SYSTEM_CLOCK) -> Code:
    """Upload the code unless this version is in the lake, and return its addresses.

    The packages are those of EventLake with the extras.
    """
    upload_if_old = partial(_upload_if_old, store, clock.now())
    packages = required_packages(extras)
    # Its addresses are given to the cluster, so it may be in one place in all lakes.
    code = DEFAULT_LAYOUT.code
    package = f"{code}/{hash_files(package_files())}"
    environment = f"{code}/{_environment_hash(packages)}"
    return Code(
        entrypoint=upload_if_old(f"{package}/entrypoint.py", _write_entrypoint),
        package=upload_if_old(f"{package}/eventlake.zip", write_package),
        environment=upload_if_old(
            f"{environment}/environment.tar.gz", partial(write_environment, packages)
        ),
        tag=entrypoint.platform_tag(),
    )


def _upload_if_old(
    store: Store, now: datetime, path: str, write: Callable[[IO[bytes]], None]
) -> str:
    uploaded = store.find(path)
    if uploaded is None or now - uploaded.modified > MAX_AGE:
        with store.write_durably(path) as out:
            write(out)
    return store.uri(path)


def _write_entrypoint(out: IO[bytes]) -> None:
    out.write(Path(entrypoint.__file__).read_bytes())


def write_package(out: IO[bytes]) -> None:
    """Write a zip of the running EventLake, installed or from a checkout."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as package:
        for name, data in package_files():
            package.writestr(name, data)
    out.write(buffer.getvalue())


def package_files() -> Iterator[tuple[str, bytes]]:
    """The files of the running EventLake by their path in a package, sorted."""
    root = Path(entrypoint.__file__).parents[1]
    for file in sorted(root.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file.relative_to(root.parent).as_posix(), file.read_bytes()
    own = metadata.distribution(PACKAGE)
    text = own.read_text("METADATA") or ""
    yield f"{PACKAGE}-{own.version}.dist-info/METADATA", text.encode()


def write_environment(packages: Packages, out: IO[bytes]) -> None:
    """Write a tar.gz of packages, in the versions installed here."""
    with (
        igzip.open(out, "wb", compresslevel=1) as packed,  # type: ignore[no-untyped-call]
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for distribution in packages.values():
            for name, file in _files(distribution):
                archive.add(file, name, recursive=False)


def _files(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """An installed package's files, without scripts, tests and bytecode."""
    for name in distribution.files or ():
        excluded = {"..", "__pycache__", "tests"}.intersection(name.parts)
        file = Path(str(name.locate()))
        if not excluded and file.is_file():
            yield name.as_posix(), file


def required_packages(extras: Collection[str]) -> Packages:
    """The installed packages that EventLake's job needs with these extras, by name."""
    packages: dict[str, metadata.Distribution] = {}
    pending = [(PACKAGE, frozenset(extras))]
    while pending:
        name, wanted = pending.pop()
        distribution = _installed(name)
        if distribution is None or name in packages or name in EXCLUDED:
            continue
        packages[name] = distribution
        pending.extend(_requirements(distribution, wanted))
    del packages[PACKAGE]
    return dict(sorted(packages.items()))


def _installed(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:  # required on other systems only
        return None


def _requirements(
    distribution: metadata.Distribution, extras: frozenset[str]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Name and extras of each requirement that applies here, with the distribution's extras."""
    for requirement in map(Requirement, distribution.requires or ()):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield canonicalize_name(requirement.name), frozenset(requirement.extras)


def _environment_hash(packages: Packages) -> str:
    """A hash of the file lists of the packages, which have a hash of each file."""
    lists = ((name, _record(package).encode()) for name, package in packages.items())
    return hash_files([("tag", entrypoint.platform_tag().encode()), *lists])


def _record(distribution: metadata.Distribution) -> str:
    return distribution.read_text("RECORD") or distribution.version


def hash_files(parts: Iterable[tuple[str, bytes]]) -> str:
    """A short hash of names and contents."""
    whole = hashlib.sha256()
    for name, data in parts:
        whole.update(f"{name} {len(data)} ".encode() + data)
    return whole.hexdigest()[:16]
