"""Downloads from Maven's central repository, with the Ivy that comes with Spark."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from eventlake.errors import InvalidSettings, Unavailable

DOWNLOAD_SECONDS = 600

_SETTINGS = """<ivysettings><settings defaultResolver="central"/>
<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>"""
_MODULE = """<ivy-module version="2.0" xmlns:e="http://ant.apache.org/ivy/extra">
<info organisation="eventlake" module="downloads"/><dependencies>{}</dependencies></ivy-module>"""
_DEPENDENCY = """<dependency org="{0.group}" name="{0.name}" rev="{0.version}" transitive="false">
<artifact name="{0.name}" type="{0.extension}" ext="{0.extension}"{1}/></dependency>"""


class Artifact(NamedTuple):
    """A file in Maven's repository."""

    group: str
    name: str
    version: str
    classifier: str = ""
    extension: str = "jar"

    @property
    def file(self) -> str:
        """The file's name, which has its version."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{classifier}.{self.extension}"


def spark_jars() -> Path:
    """The folder of Spark's jars, without importing Spark."""
    spec = find_spec("pyspark")
    assert spec is not None, "pyspark is a dependency"
    assert spec.origin is not None
    return Path(spec.origin).parent / "jars"


def find_files(folder: str, artifacts: Sequence[Artifact], java: str) -> list[Path]:
    """The files of artifacts in `folder`, or, without one, in a cache of the user's.

    What the cache lacks is downloaded; raises Unavailable if that fails. Nothing is downloaded
    into `folder`: raises InvalidSettings if it lacks a file.
    """
    place = Path(folder) if folder else _cache_folder()
    missing = [one for one in dict.fromkeys(artifacts) if not (place / one.file).is_file()]
    if missing and folder:
        names = ", ".join(f"{one.file} ({one.group})" for one in missing)
        raise InvalidSettings(f"metastore_jars is {folder!r}, and it lacks {names}")
    if missing:
        _download(place, missing, java)
    return [place / one.file for one in artifacts]


def _cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "eventlake" / "maven"


def _download(folder: Path, artifacts: Sequence[Artifact], java: str) -> None:
    """Download artifacts; each appears in the folder when it is complete."""
    names = ", ".join(one.file for one in artifacts)
    (ivy,) = spark_jars().glob("ivy-*.jar")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            new = Path(scratch)
            (new / "settings.xml").write_text(_SETTINGS)
            (new / "ivy.xml").write_text(_MODULE.format("".join(map(_dependency, artifacts))))
            files = ("-settings", new / "settings.xml", "-ivy", new / "ivy.xml")
            pattern = f"{new}/[artifact]-[revision](-[classifier]).[ext]"
            places = ("-cache", new / "cache", "-retrieve", pattern)
            command = [java, "-jar", *map(str, (ivy, *files, *places))]
            subprocess.run(command, check=True, capture_output=True, timeout=DOWNLOAD_SECONDS)
            for one in artifacts:
                (new / one.file).replace(folder / one.file)
    except (OSError, subprocess.SubprocessError) as problem:
        raise Unavailable(
            f"could not download {names} from Maven's central repository to {folder}: download "
            "them by hand into a folder, and set metastore_jars to it"
        ) from problem


def _dependency(one: Artifact) -> str:
    classifier = f' e:classifier="{one.classifier}"' if one.classifier else ""
    return _DEPENDENCY.format(one, classifier)
