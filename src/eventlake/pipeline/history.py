"""The history of a source: which inputs it has loaded and which files it has, by its commits."""

from collections import defaultdict
from dataclasses import dataclass, field

from eventlake.archive import object_address
from eventlake.ledger import Ledger
from eventlake.model.commit import Commit, CommitKind, DataFile, Input


@dataclass
class History:
    """What the commits of a source up to one of them have loaded, and the files that are live."""

    inputs: dict[tuple[str, str], Input] = field(default_factory=dict)
    """By address and fingerprint, with the first and last time of receipt."""
    files: defaultdict[str, dict[str, DataFile]] = field(default_factory=lambda: defaultdict(dict))
    """By table and path, without statistics."""
    adopted: set[str] = field(default_factory=set)
    """Paths of files that another program has written."""
    tables: set[str] = field(default_factory=set)
    """All tables that events were read of, also of those that did not land."""
    loaded_bytes: dict[str, int] = field(default_factory=dict)
    """By run, the size of the inputs that it read."""

    def apply(self, commit: Commit) -> None:
        """Add the next commit of the source, in place.

        One that replaces or drops everything starts inputs and tables anew.
        """
        if commit.is_whole:
            self.inputs.clear()
            self.tables.clear()
        self._rewrite_inputs(commit)
        for one in commit.inputs:
            published = one.model_copy(update={"staged": ""}) if one.staged else one
            self.inputs[one.uri, one.fingerprint] = published
        for table in commit.tables:
            files = self.files[table.table.name]
            for file in table.removes:
                files.pop(file.path, None)
            files |= {file.path: file.model_copy(update={"stats": {}}) for file in table.adds}
            if commit.kind is CommitKind.ADOPT:
                self.adopted.update(file.path for file in table.adds)
        erased = commit.erasure.files if commit.erasure else ()
        self.adopted.update(one.new_path for one in erased if one.path in self.adopted)
        self.tables.update(table.table.name for table in commit.tables)
        self.loaded_bytes[commit.run_id] = sum(one.size for one in commit.inputs)

    def _rewrite_inputs(self, commit: Commit) -> None:
        """Replace or remove the inputs that a commit rewrites, in place."""
        rewrites = {object_address(one.path): one for one in commit.rewrites}
        for key, one in list(self.inputs.items()):
            if one.uri in rewrites:
                del self.inputs[key]
                if new := rewrites[one.uri].input:
                    self.inputs[new.uri, new.fingerprint] = new


def read_history(ledger: Ledger, last: int) -> History:
    """Read the history of a source up to and including the commit with the sequence `last`."""
    history = History()
    for sequence, commit in ledger.commits_after(0):
        if sequence <= last:
            history.apply(commit)
    return history
