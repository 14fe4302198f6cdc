"""An archive of the classes that Spark loads: with it, a JVM starts in half the time.

Java writes it when a JVM ends, which takes 20 seconds. So a process of its own makes it once, after
the first command that could have used it. As a module, this is that process.
"""

import atexit
import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from eventlake.runners.java import Java, find_java

KEPT = 8
"""Archives that stay in the cache, those that were used last; each has 160 MB."""


def use_archive(java: Java, class_path: Iterable[str]) -> tuple[str, ...]:
    """The JVM's options to use the archive for this Java and class path.

    Without one there are none, and a process is started to make it when this one ends.
    """
    archive = _archive_path(java, class_path)
    if archive.exists():
        with suppress(OSError):
            os.utime(archive)  # it is in use: see KEPT
        return (f"-XX:{'AOTCache' if _has_aot(java) else 'SharedArchiveFile'}={archive}",)
    atexit.register(_start_making)
    return ()


def _has_aot(java: Java) -> bool:
    """Whether Java has the newer archives, which do not need one of Java's own classes."""
    return java.major >= 25


def _archive_path(java: Java, class_path: Iterable[str]) -> Path:
    """The path of the archive; another for each Java and each set of jars."""
    jars = [(path, Path(path).stat().st_size) for path in class_path]
    name = hashlib.sha256(repr((java, jars)).encode()).hexdigest()[:16]
    return _cache_folder() / f"spark-{name}.jsa"


def _cache_folder() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "eventlake"


def _start_making() -> None:
    """Start the process that makes the archive; it goes on when this one has ended."""
    subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def make_archive() -> None:
    """Make the archive for the Java and the Spark of this machine, unless it exists.

    Returns at once if another process makes it, or if the cache cannot be written to.
    """
    # Imported here because they use this module.
    from eventlake.runners.jvm import class_path  # noqa: PLC0415
    from eventlake.runners.local import run_empty_session  # noqa: PLC0415

    java = find_java()
    archive = _archive_path(java, class_path())
    with _only_process(archive.with_suffix(".lock")) as is_only:
        if not is_only or archive.exists():
            return
        with TemporaryDirectory(dir=archive.parent) as folder:
            new = Path(folder) / archive.name
            output = "AOTCacheOutput" if _has_aot(java) else "ArchiveClassesAtExit"
            run_empty_session(new.with_suffix(".log"), (f"-XX:{output}={new}",))
            new.rename(archive)
    archives = archive.parent.glob("spark-*.jsa")
    for old in sorted(archives, key=lambda one: one.stat().st_mtime)[:-KEPT]:
        old.unlink(missing_ok=True)


@contextmanager
def _only_process(path: Path) -> Iterator[bool]:
    """Lock a file, which is made; False if another process has the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


if __name__ == "__main__":
    os.nice(10)
    try:
        make_archive()
    except OSError as problem:
        sys.exit(f"the archive of Spark's classes cannot be made: {problem}")
