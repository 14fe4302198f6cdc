"""How few requests a bucket needs, and what happens when others are faster."""

import pytest
import tenacity

from eventlake.errors import InsufficientPermissions, Unavailable
from eventlake.lakes import open_store
from eventlake.stores import Range
from eventlake.stores.bucket import MAX_GAP_BYTES, Bucket
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.aws.rules import Denied, Refuses

PATH = "segment-stage/1/x"


def test_ranges_that_are_close_are_read_with_one_request(aws: Aws, proxy: Proxy) -> None:
    store, content = open_store(aws.settings()), bytes(range(256)) * 1024
    store.write(PATH, content)
    far = 2 * MAX_GAP_BYTES
    ranges = [Range(PATH, at, 10) for at in (0, 500, far, far + 20, 500)]
    parts = [bytes(part) for part in store.read_ranges(ranges)]
    assert parts == [content[part.start : part.end] for part in ranges]
    assert len(proxy.asked("GetObject")) == 2


def test_a_file_reads_as_much_as_is_asked_for_with_one_request(aws: Aws, proxy: Proxy) -> None:
    store = open_store(aws.settings())
    store.write(PATH, b"x" * (5 << 20))
    with store.open(PATH) as file:
        file.seek(100)
        assert len(file.read(4 << 20)) == 4 << 20
    assert len(proxy.asked("GetObject")) == 1


def test_a_file_that_may_not_be_read_says_so(aws: Aws, proxy: Proxy) -> None:
    store = open_store(aws.settings())
    store.write(PATH, b"x")
    denied = proxy.ruled(Denied("s3:GetObject", "segment-stage/"))
    with store.open(PATH) as file, denied, pytest.raises(InsufficientPermissions, match=PATH):
        file.read()


def test_an_update_that_others_always_precede_gives_up(
    aws: Aws, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(aws.settings())
    monkeypatch.setattr(Bucket._try_update.retry, "stop", tenacity.stop_after_attempt(3))
    late = Refuses("PutObject", 412, "PreconditionFailed")
    with proxy.ruled(late), pytest.raises(Unavailable, match=f"{PATH}: others replace it"):
        store.update(PATH, lambda _: b"mine")
    assert len(proxy.asked("PutObject")) == 3
