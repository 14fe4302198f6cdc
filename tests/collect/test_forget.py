"""A user is forgotten while the collector has the user's events in its spool."""

from collections.abc import Callable
from pathlib import Path

import pytest

from eventlake.services.forget import forget
from tests import lakes
from tests.collect.servers import Server, archived, event, rejected, serving, spooled
from tests.collect.test_serve import wait_until
from tests.pipeline.test_forget import search

USER, EMAIL, BROWSER = "user_123", "ada@example.com", "anon-browser"


def send(server: Server) -> None:
    """Events of the user and of another one, valid and invalid."""
    traits = {"email": EMAIL}
    who = {"userId": USER, "anonymousId": BROWSER, "traits": traits}
    server.post("/v1/identify", {"messageId": "m1", **who})
    server.post("/v1/track", event(2, userId=USER))
    server.post("/v1/track", {"messageId": "m3", "event": "Seen", "anonymousId": BROWSER})
    server.post("/v1/track", {"messageId": "m4", "userId": USER, "properties": traits})
    server.post("/v1/track", event(5, userId="other"))
    server.post("/v1/track", {"messageId": "m6", "userId": "other"})


def live(server: Server, lake: Path) -> None:
    """The collector learns of it, completes its segments and seals them."""
    wait_until(lambda: not spooled(lake))
    assert server.stop() == 0


def restarted(server: Server, lake: Path) -> None:
    """The collector was killed before it could; the next one seals its segments."""
    with serving(lake) as again:
        wait_until(lambda: not spooled(lake))
        assert again.stop() == 0


@pytest.mark.parametrize("end", [live, restarted])
def test_the_spool_loses_the_events(end: Callable[[Server, Path], None], tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving(lake) as server:
        server.post("/v1/identify", {"messageId": "m0", "userId": USER, "anonymousId": BROWSER})
        assert server.stop() == 0
    lakes.sync(lake)
    with serving(lake, "--seal-seconds", "3600") as server:
        send(server)
        assert (len(spooled(lake)), search(lake, (EMAIL,)) != []) == (2, True)
        if end is restarted:
            server.kill()
        assert forget(USER, lake=lake, also_anonymous=True).status == "finished"
        end(server, lake)
    assert search(lake, (USER, EMAIL, BROWSER)) == []
    assert [one["messageId"] for one in archived(lake)] == ["m5"]
    assert [one["event"]["messageId"] for one in rejected(lake)] == ["m6"]
    assert lakes.sync(lake).counts.landed == 1
    assert lakes.read_contents(lake).problems == ()
