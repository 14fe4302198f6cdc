"""`python -m tests.collect.sdk_python URL KEY CALLS GZIP`: Segment's Python SDK makes the calls."""

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from segment.analytics.client import Client

NAMES = {
    "userId": "user_id",
    "anonymousId": "anonymous_id",
    "messageId": "message_id",
    "groupId": "group_id",
    "previousId": "previous_id",
}


def arguments(call: dict[str, Any]) -> dict[str, Any]:
    named = {NAMES.get(key, key): value for key, value in call.items() if key != "type"}
    return named | {"timestamp": datetime.fromisoformat(call["timestamp"])}


def main(url: str, key: str, calls: str, gzip: str) -> None:
    problems: list[Any] = []
    client = Client(
        key,
        host=url,
        gzip=gzip == "gzip",
        upload_interval=0.1,
        on_error=lambda problem, _: problems.append(problem),
    )
    for call in json.loads(Path(calls).read_text()):
        getattr(client, call["type"])(**arguments(call))
    client.flush()
    client.join()
    sys.exit(f"not delivered: {problems}" if problems else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
