"""Which sources a lake has, and the folder and catalog names that each of them owns.

A claim is made before a source's first commit under a name and is never given up: the tables stay
registered under that name, so nobody else may have it.
"""

from pydantic import Field

from eventlake.errors import InvalidSettings
from eventlake.model.settings import SourceSettings, rebuild_command
from eventlake.model.values import FrozenModel

Names = tuple[str, str]
"""A database and a table prefix."""


class Claim(FrozenModel):
    """What one source owns besides its folder."""

    source: str
    source_id: str
    partition_by_slug: bool = False
    names: tuple[Names, ...] = ()
    """Every database and table prefix that its tables were ever registered under."""
    table_folders: tuple[str, ...] = ()
    """Every folder that its tables were ever in, if it is not the key of this claim."""


class Claims(FrozenModel):
    """The claims of all sources of a lake, by folder."""

    by_folder: dict[str, Claim] = Field(default_factory=dict)

    def with_source(self, settings: SourceSettings) -> "Claims":
        """The claims with those of `settings`; InvalidSettings if another source owns one."""
        for folder, other in self.by_folder.items():
            if folder == settings.folder:
                _check_folder(settings, other)
            else:
                _check_neighbour(settings, folder, other)
        self._check_slug(settings)
        known = self.by_folder.get(settings.folder)
        names = dict.fromkeys((*(known.names if known else ()), names_of(settings)))
        folders = dict.fromkeys((*(known.table_folders if known else ()), settings.table_folder))
        mine = Claim(
            source=settings.source,
            source_id=settings.source_id,
            partition_by_slug=settings.partition_by_slug,
            names=tuple(names),
            table_folders=tuple(one for one in folders if one != settings.folder),
        )
        return Claims(by_folder={**self.by_folder, settings.folder: mine})

    def _check_slug(self, settings: SourceSettings) -> None:
        """Refuse a slug without an id that could mean a source which has another id."""
        if settings.source_id != settings.source:
            return
        slugs = {one.source_id: one.source for one in self.by_folder.values()}
        slug = slugs.get(settings.source, settings.source)
        ids = sorted(identity for identity, known in slugs.items() if known == slug)
        if ids and slugs.get(settings.source) != settings.source:
            raise InvalidSettings(
                f"source is {settings.source!r}, and this lake has the source {slug} with the id "
                f"{' and with the id '.join(ids)}: say which one with --source {slug} "
                "--source-id <id>, or give a new id for a new source"
            )


def names_of(settings: SourceSettings) -> Names:
    """The database and prefix that the source's tables have in the catalog."""
    return settings.database, settings.table_prefix


def _check_folder(settings: SourceSettings, owner: Claim) -> None:
    if settings.source_id != owner.source_id:
        raise InvalidSettings(
            f"source_id is {settings.source_id!r}, and the folder {settings.folder} holds the "
            f"source {owner.source} with the id {owner.source_id}: give that id, or another slug"
        )


def _check_neighbour(settings: SourceSettings, folder: str, other: Claim) -> None:
    """Raise `InvalidSettings` if names of the source in `folder` are wanted by another source."""
    if settings.source_id == other.source_id:
        raise InvalidSettings(
            f"the source with the id {settings.source_id} was loaded as {other.source!r} with "
            f"partition_by_slug {other.partition_by_slug}: keep both, choose another source_id, or "
            "rebuild the source with "
            + rebuild_command(other.source, "partition_by_slug", settings.partition_by_slug)
        )
    taken = {settings.folder, settings.table_folder} & {folder, *other.table_folders}
    if taken:
        raise InvalidSettings(
            f"the folder {min(taken)} holds the source {other.source} with the id "
            f"{other.source_id}: choose another slug or another partition_by_slug"
        )
    for database, prefix in other.names:
        if settings.database == database and _overlap(settings.table_prefix, prefix):
            raise InvalidSettings(
                f"database is {database!r}, and {other.source} has tables there"
                f"{f' with the table_prefix {prefix!r}' if prefix else ''}: choose another "
                "database, or give each of the two a table_prefix of its own"
            )


def _overlap(one: str, other: str) -> bool:
    """Whether two prefixes can make the same table name: `a` and `a_b` can."""
    short, long = sorted((f"{one}_", f"{other}_"), key=len)
    return not (one and other) or long.startswith(short)
