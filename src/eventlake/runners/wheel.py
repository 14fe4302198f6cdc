"""EventLake as a wheel, and its dependencies as a list, for clusters that install packages."""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path

from eventlake.runners import databricks_entrypoint
from eventlake.runners.package import PACKAGE, hash_files, package_files, required_packages

_WHEEL = "Wheel-Version: 1.0\nGenerator: eventlake\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@dataclass(frozen=True)
class JobFiles:
    """The files to upload for a job of lakes that need these extras."""

    extras: tuple[str, ...]

    script = "entrypoint.py"
    requirements = "requirements.txt"

    @cached_property
    def version(self) -> str:
        """EventLake's version with a hash of code and dependencies: another build is another."""
        content = [*package_files(), ("requirements", self._list.encode())]
        return f"{metadata.version(PACKAGE)}+{hash_files(content)}"

    @property
    def wheel(self) -> str:
        return f"{PACKAGE}-{self.version}-py3-none-any.whl"

    @cached_property
    def contents(self) -> Mapping[str, bytes]:
        """The files by name."""
        return {
            self.script: Path(databricks_entrypoint.__file__).read_bytes(),
            self.wheel: self._write_wheel(),
            self.requirements: self._list.encode(),
        }

    @cached_property
    def _list(self) -> str:
        """The dependencies in the versions installed here, except Spark, which the cluster has."""
        packages = required_packages(self.extras).items()
        return "".join(f"{name}=={package.version}\n" for name, package in packages)

    def _write_wheel(self) -> bytes:
        """A wheel without dependencies: with them, pip would install a second Spark."""
        info = f"{PACKAGE}-{self.version}.dist-info"
        files = {name: data for name, data in package_files() if ".dist-info/" not in name}
        about = f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {self.version}\n"
        files |= {f"{info}/METADATA": about.encode(), f"{info}/WHEEL": _WHEEL.encode()}
        record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as wheel:
            for name, data in {**files, f"{info}/RECORD": record.encode()}.items():
                wheel.writestr(name, data)
        return buffer.getvalue()
