"""The MySQL or MariaDB database of a Hive metastore: its address and its schema."""

import re
import ssl
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl

import pymysql

from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings, Unavailable
from eventlake.secrets import Secrets

NEW_SCHEMA = "2.3.0"
"""The version that is created, which Spark's own client uses."""
SCHEMAS = (NEW_SCHEMA, "3.1.0")
"""The versions that the private metastore, which is Hive 2.3, works with."""
SCRIPTS = (
    "hive-schema-1.2.0",
    "upgrade-1.2.0-to-2.0.0",
    "upgrade-2.0.0-to-2.1.0",
    "upgrade-2.1.0-to-2.2.0",
    "upgrade-2.2.0-to-2.3.0",
)
"""The scripts of Hive that create the schema; there is none that does it at once."""
CREATING = "EVENTLAKE_CREATES_SCHEMA"
"""A table that exists while the schema is created."""
CONNECT_SECONDS = 10
LOCK_SECONDS = 120

_URL = re.compile(
    r"(?:jdbc:)?(?:mysql|mariadb)://(?P<host>[^/:?]+)(?::(?P<port>\d+))?/(?P<name>\w+)"
    r"(?:\?(?P<options>.*))?"
)
_LOOPBACK = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class MetastoreDatabase:
    """A database, and a user who may change it. Its password is read when it is used."""

    host: str
    port: int
    name: str
    user: str
    secrets: Secrets
    use_tls: bool = True

    @classmethod
    def from_url(cls, url: str, user: str, secrets: Secrets) -> Self:
        """The database of a URL such as `jdbc:mysql://host:3306/name?useSSL=false`."""
        match = _URL.fullmatch(url)
        assert match, "the settings are validated"
        options = {name.lower(): value.lower() for name, value in parse_qsl(match["options"] or "")}
        is_off = options.get("usessl") == "false" or options.get("sslmode", "").startswith("disab")
        return cls(
            host=match["host"],
            port=int(match["port"] or 3306),
            name=match["name"],
            user=user,
            secrets=secrets,
            use_tls=not is_off and match["host"] not in _LOOPBACK,
        )

    def __str__(self) -> str:
        return f"mysql://{self.host}:{self.port}/{self.name}"

    @property
    def jdbc_url(self) -> str:
        """The URL for MariaDB's driver, which then says that it is one of MySQL."""
        tls = "&sslMode=verify-full" if self.use_tls else ""
        return f"jdbc:mariadb://{self.host}:{self.port}/{self.name}?useMysqlMetadata=true{tls}"

    @property
    def password(self) -> str:
        """The password; raises InvalidSettings if there is none."""
        password = self.secrets.get("metastore_password")
        if not self.user or not password:
            raise InvalidSettings(
                f"the metastore's database {self} needs metastore_user, and METASTORE_PASSWORD (or "
                "metastore_password in the credentials_file)"
            )
        return password

    def ensure_schema(self, find_scripts: Callable[[], Path]) -> str:
        """Create the schema in an empty database; return its version.

        `find_scripts` returns Hive's archive with the scripts. Raises InvalidSettings if the
        schema has a version that is not supported, or the database is not that of a metastore.
        """
        with self._connect() as cursor:
            self._check_names(cursor)
            tables = _list_tables(cursor)
            if not tables or CREATING in tables:
                statements = list(read_statements(find_scripts()))
                with _lock(cursor, f"eventlake schema {self.name}"):
                    _create_schema(cursor, statements)
                tables = _list_tables(cursor)
            version = _read_version(cursor) if "VERSION" in tables else ""
        if version in SCHEMAS:
            return version
        found = f"has the schema {version}" if version else "is not that of a Hive metastore"
        raise InvalidSettings(
            f"metastore_url is {self}, and this database {found}: EventLake works with "
            f"{' and '.join(SCHEMAS)}, and creates {NEW_SCHEMA} in an empty database; or run a "
            "metastore server of that version and set metastore_url to thrift://host:port"
        )

    def _check_names(self, cursor: Any) -> None:
        """Raise InvalidSettings if the server stores the names of tables in lower case."""
        cursor.execute("SELECT @@lower_case_table_names")
        if cursor.fetchone()[0] == 1:
            raise InvalidSettings(
                f"metastore_url is {self}, and this server has lower_case_table_names = 1, with "
                "which Hive does not find its own tables: use a server with 0 or 2; in Azure, "
                "choose 2 when the server is made, as it cannot be changed later"
            )

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        try:
            connection = pymysql.connect(
                host=self.host,
                port=self.port,
                user=self.user,
                password=self.password,
                database=self.name,
                connect_timeout=CONNECT_SECONDS,
                autocommit=True,
                ssl=ssl.create_default_context() if self.use_tls else None,
                ssl_disabled=not self.use_tls,
            )
            with closing(connection), connection.cursor() as cursor:
                yield cursor
        except pymysql.Error as problem:
            raise self._explain(problem) from problem

    def _explain(self, problem: Exception) -> EventLakeError:
        number, text = (*problem.args, "", "")[:2]
        if number in _NOT_ACCEPTED:
            return InvalidSettings(
                f"the database {self} does not accept metastore_user {self.user!r} with this "
                f"password (METASTORE_PASSWORD or the credentials_file): {text}"
            )
        if number == _NO_DATABASE:
            return InvalidSettings(
                f"metastore_url is {self}, and the server has no such database: create it"
            )
        if number in _DENIED:
            return InsufficientPermissions(
                f"{text}: grant all privileges on {self.name}.* to {self.user}",
                f"GRANT ALL PRIVILEGES ON `{self.name}`.* TO '{self.user}'@'%'",
            )
        return Unavailable(
            f"cannot use the metastore's database {self}: {text or problem}: check metastore_url, "
            "that the server runs, and that its firewall lets this machine through"
        )


_NOT_ACCEPTED = (1045, 1698)
_NO_DATABASE = 1049
_DENIED = (1044, 1142, 1143, 1227, 1370)


def _list_tables(cursor: Any) -> set[str]:
    """The tables of the database, in upper case: some servers keep lower case."""
    cursor.execute("SHOW TABLES")
    return {str(row[0]).upper() for row in cursor.fetchall()}


def _read_version(cursor: Any) -> str:
    cursor.execute("SELECT SCHEMA_VERSION FROM VERSION")
    row = cursor.fetchone()
    return str(row[0]) if row else ""


@contextmanager
def _lock(cursor: Any, name: str) -> Iterator[None]:
    """Hold a lock of the server; it ends with the connection at the latest."""
    cursor.execute("SELECT GET_LOCK(%s, %s)", (name[:64], LOCK_SECONDS))
    if cursor.fetchone()[0] != 1:
        raise Unavailable("another run creates the metastore's schema: run again later")
    yield
    cursor.execute("SELECT RELEASE_LOCK(%s)", (name[:64],))


def _create_schema(cursor: Any, statements: Iterable[str]) -> None:
    """Create the schema, unless another run has done so; starts over what a killed one began."""
    tables = _list_tables(cursor)
    if tables and CREATING not in tables:
        return
    cursor.execute("SET FOREIGN_KEY_CHECKS = 0")
    for table in sorted(tables - {CREATING}):
        cursor.execute(f"DROP TABLE `{table}`")
    cursor.execute(f"CREATE TABLE IF NOT EXISTS {CREATING} (id INT)")
    for statement in statements:
        cursor.execute(statement)
    cursor.execute(f"DROP TABLE {CREATING}")


def read_statements(archive: Path, scripts: Sequence[str] = SCRIPTS) -> Iterator[str]:
    """The statements of scripts in Hive's archive."""
    with tarfile.open(archive) as packed:
        files = {name.rpartition("/")[2]: name for name in packed.getnames() if "/mysql/" in name}
        for script in scripts:
            file = packed.extractfile(files[f"{script}.mysql.sql"])
            assert file is not None
            text = re.sub(r"^\s*--.*$", "", file.read().decode(), flags=re.MULTILINE)
            yield from filter(None, map(str.strip, re.split(r";[ \t]*$", text, flags=re.MULTILINE)))
