"""EventLake: customer events in a data lake that you own.

import eventlake

eventlake.load(["raw/"], lake="./lake", settings=eventlake.source_settings(source="web"))
eventlake.sync("web", lake="./lake")  # what `eventlake serve` has archived since
eventlake.open_lake("./lake").query("select count(*) from web.order_completed")
eventlake.suppress_users(["user_123"], lake="./lake")  # no later run lands their events
eventlake.check("lake.toml")  # a lake is a folder, an address, or a file of settings
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eventlake.errors import EventLakeError
    from eventlake.model.settings import SourceSettings, source_settings
    from eventlake.services.adopt import adopt, plan_adoption
    from eventlake.services.check import check
    from eventlake.services.compact import compact, plan_compaction
    from eventlake.services.drop import drop, plan_drop
    from eventlake.services.forget import forget, plan_forget
    from eventlake.services.import_settings import import_settings
    from eventlake.services.load import LoadResult, load, plan_load, plan_sync, sync
    from eventlake.services.read import Lake, open_lake
    from eventlake.services.redrive import RedriveRequest, plan_redrive, redrive
    from eventlake.services.repair import repair
    from eventlake.services.replay import ReplayRequest, plan_replay, replay
    from eventlake.services.retype import plan_retype, retype, retype_request
    from eventlake.services.suppress import (
        list_suppressed_users,
        suppress_users,
        unsuppress_users,
    )

__all__ = [
    "EventLakeError",
    "Lake",
    "LoadResult",
    "RedriveRequest",
    "ReplayRequest",
    "SourceSettings",
    "adopt",
    "check",
    "compact",
    "drop",
    "forget",
    "import_settings",
    "list_suppressed_users",
    "load",
    "open_lake",
    "plan_adoption",
    "plan_compaction",
    "plan_drop",
    "plan_forget",
    "plan_load",
    "plan_redrive",
    "plan_replay",
    "plan_retype",
    "plan_sync",
    "redrive",
    "repair",
    "replay",
    "retype",
    "retype_request",
    "source_settings",
    "suppress_users",
    "sync",
    "unsuppress_users",
]

_HOMES = {
    "adopt": "eventlake.services.adopt",
    "check": "eventlake.services.check",
    "compact": "eventlake.services.compact",
    "drop": "eventlake.services.drop",
    "EventLakeError": "eventlake.errors",
    "forget": "eventlake.services.forget",
    "import_settings": "eventlake.services.import_settings",
    "Lake": "eventlake.services.read",
    "list_suppressed_users": "eventlake.services.suppress",
    "plan_adoption": "eventlake.services.adopt",
    "plan_compaction": "eventlake.services.compact",
    "open_lake": "eventlake.services.read",
    "plan_drop": "eventlake.services.drop",
    "plan_forget": "eventlake.services.forget",
    "plan_redrive": "eventlake.services.redrive",
    "plan_replay": "eventlake.services.replay",
    "plan_retype": "eventlake.services.retype",
    "redrive": "eventlake.services.redrive",
    "RedriveRequest": "eventlake.services.redrive",
    "repair": "eventlake.services.repair",
    "replay": "eventlake.services.replay",
    "ReplayRequest": "eventlake.services.replay",
    "retype": "eventlake.services.retype",
    "retype_request": "eventlake.services.retype",
    "SourceSettings": "eventlake.model.settings",
    "source_settings": "eventlake.model.settings",
    "suppress_users": "eventlake.services.suppress",
    "unsuppress_users": "eventlake.services.suppress",
}


def __getattr__(name: str) -> Any:
    """Imported when first asked for: `eventlake --help` needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module 'eventlake' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "eventlake.services.load")), name)
