"""A client process: sends until the connection fails, and logs what was acknowledged.

`python -m tests.collect.client URL KEY PREFIX OUT`: events whose ids begin with PREFIX, single
events and batches on several connections; an id is written to OUT when its 200 has arrived.
"""

import sys
from itertools import count
from pathlib import Path
from threading import Lock, Thread

import httpx

CONNECTIONS = 6


def send(url: str, key: str, prefix: str, out: Path, lock: Lock) -> None:
    with httpx.Client(base_url=url, auth=(key, ""), timeout=5) as client, out.open("a") as log:
        for turn in count():
            ids = [f"{prefix}-{turn}-{n}" for n in range(10 if turn % 3 == 0 else 1)]
            events = [{"type": "page", "userId": "u", "messageId": id_} for id_ in ids]
            path, body = (
                ("/v1/page", events[0]) if len(ids) == 1 else ("/v1/batch", {"batch": events})
            )
            try:
                answer = client.post(path, json=body)
            except httpx.HTTPError:
                return
            if answer.status_code == 200:
                with lock:
                    log.write("".join(f"{id_}\n" for id_ in ids))
                    log.flush()


def main(url: str, key: str, prefix: str, out: str) -> None:
    lock = Lock()
    threads = [
        Thread(target=send, args=(url, key, f"{prefix}-{n}", Path(out), lock))
        for n in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
