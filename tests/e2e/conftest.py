"""Most commands run on a PATH without Java here; all other tests of Spark prefer the machine's."""

from collections.abc import Iterator

import pytest

from tests.java import path_without_java


@pytest.fixture(scope="module")
def no_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    path = path_without_java(tmp_path_factory.mktemp("no-java") / "bin")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PATH", path)
        environment.delenv("JAVA_HOME", raising=False)
        yield
