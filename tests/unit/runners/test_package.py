"""What goes to a cluster: all that a job imports, nothing that the cluster has, put there once."""

import ast
import io
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import IO

from eventlake.clock import SYSTEM_CLOCK
from eventlake.runners import entrypoint, package
from eventlake.stores import Disk


def test_the_environment_has_what_a_job_needs_and_no_spark() -> None:
    found = package.required_packages(("aws",))
    assert {"boto3", "botocore", "obstore", "pyarrow", "pydantic", "msgspec", "numpy"} <= {*found}
    assert not {"pyspark", "py4j", "duckdb", "eventlake", "pytest", "moto", "ruff"} & {*found}


def test_requirements_count_by_the_extras_that_are_asked_for() -> None:
    lines = [
        "numpy>=2",
        "typing_extensions ; python_version < '3.13'",
        "boto3[crt]>=1 ; extra == 'aws'",
        'pytest ; extra == "dev"',
    ]
    found = dict(package._requirements(Described(lines), frozenset(("aws",))))  # type: ignore[arg-type]
    assert found == {
        "numpy": frozenset(),
        "typing-extensions": frozenset(),
        "boto3": frozenset(("crt",)),
    }


@dataclass(frozen=True)
class Described:
    """As much of an installed package as says what it needs."""

    requires: list[str]


def test_the_package_is_whole_and_knows_its_version() -> None:
    packed = io.BytesIO()
    package.write_package(packed)
    with zipfile.ZipFile(packed) as found:
        names = found.namelist()
    assert {"eventlake/__init__.py", "eventlake/job.py", "eventlake/runners/daemon.py"} <= {*names}
    assert [name for name in names if name.endswith(".dist-info/METADATA")]
    assert not [name for name in names if "__pycache__" in name]


def test_a_packed_distribution_has_its_code_and_its_metadata() -> None:
    packed = io.BytesIO()
    package.write_environment({"six": package.required_packages(("aws",))["six"]}, packed)
    with tarfile.open(fileobj=io.BytesIO(packed.getvalue())) as found:
        names = found.getnames()
    assert "six.py" in names
    assert [name for name in names if name.endswith(".dist-info/METADATA")]


@dataclass
class Written:
    """Counts how often something is written."""

    times: list[int] = field(default_factory=list)

    def __call__(self, out: IO[bytes]) -> None:
        self.times.append(out.write(b"x"))


def test_code_is_put_there_once_and_again_before_it_expires(tmp_path: Path) -> None:
    store, write, path = Disk(str(tmp_path)), Written(), "segment-stage/code/x/entrypoint.py"
    now = SYSTEM_CLOCK.now()
    for _ in range(2):
        assert package._upload_if_old(store, now, path, write).endswith("x/entrypoint.py")
    assert len(write.times) == 1
    package._upload_if_old(store, now + package.MAX_AGE + timedelta(minutes=1), path, write)
    assert len(write.times) == 2


def test_code_that_was_packed_for_another_python_says_so_in_one_sentence() -> None:
    ran = subprocess.run(
        [sys.executable, "-S", str(entrypoint.__file__), "3.9-linux-riscv64", "emr_python", "job"],
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert "packed for Python 3.9 on linux-riscv64, and this is Python 3." in line
    assert ": set emr_python to a Python of that version" in line


def test_an_old_python_can_read_what_the_cluster_starts() -> None:
    ast.parse(Path(entrypoint.__file__).read_text(), feature_version=(3, 7))


def test_code_that_fits_has_nothing_to_say() -> None:
    here = entrypoint.platform_tag()
    assert entrypoint.explain_mismatch(here, here, "emr_python") == ""
