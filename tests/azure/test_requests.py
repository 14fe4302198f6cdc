"""Whole sets of requests with each way to sign in, and copies that Azure finishes later."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from eventlake.errors import InsufficientPermissions, InvalidSettings, Unavailable
from eventlake.lakes import open_store
from eventlake.stores import Store
from tests.aws.answers import Answer, refusal
from tests.aws.calls import Call
from tests.aws.rules import Forward, Once, done_but_500, slow_down, too_many
from tests.azure.azurite import KEY, Azure
from tests.azure.proxy import Proxy, make_sas
from tests.azure.test_login import CLIENT, IDS, SECRET, TENANT

STAGED, FINAL = "segment-stage/1/a b", "staging/web/c+d"


def use(store: Store) -> None:
    """Make every kind of request."""
    assert store.create(STAGED, b"one")
    assert not store.create(STAGED, b"two")
    store.publish(STAGED, FINAL)
    store.update(FINAL, lambda known: (known or b"") + b"!")
    assert store.read(FINAL) == b"one!"
    with store.open_staged("segment-stage/1/large") as file:
        file.write(bytes(11 << 20))
    found = store.find("segment-stage/1/large")
    assert found is not None
    assert found.size == 11 << 20
    assert store.names("segment-stage/1") == ([], ["a b", "large"])
    store.delete([STAGED, FINAL, "segment-stage/1/large", "segment-stage/gone"])
    assert store.names("segment-stage") == store.names("staging") == ([], [])


# Who signs in


def test_an_account_key_makes_every_request(azure: Azure, proxy: Proxy) -> None:
    use(open_store(azure.settings()))
    assert {call.caller for call in proxy.calls} == {"SharedKey"}
    assert proxy.astray() == []


def test_a_shared_access_signature_makes_every_request(
    azure: Azure, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", f"?{make_sas()}")
    store = open_store(azure.settings())
    use(store)
    assert {call.caller for call in proxy.calls} == {"SAS"}
    store.write("segment-data/a", b"x")
    filesystem, root = store.filesystem()
    assert filesystem.open_input_stream(f"{root}/segment-data/a").read() == b"x"


@dataclass(frozen=True)
class Identity:
    """Settings and environment variables of a way to get a token, and what it sends."""

    settings: Mapping[str, str]
    variables: Mapping[str, str]
    sends: str


IDENTITIES = {
    "service principal": Identity(IDS, {"AZURE_CLIENT_SECRET": SECRET}, f"client_secret={SECRET}"),
    "managed identity": Identity(
        {"login": "identity", "client_id": CLIENT},
        {"IDENTITY_ENDPOINT": "{url}/msi/token", "IDENTITY_HEADER": "x"},
        f"client_id={CLIENT}",
    ),
    "workload identity": Identity(
        IDS, {"AZURE_FEDERATED_TOKEN_FILE": "{token}"}, "client_assertion=of-the-pod"
    ),
}


@pytest.mark.parametrize("identity", IDENTITIES.values(), ids=IDENTITIES)
def test_a_token_makes_every_request(
    azure: Azure,
    tls_proxy: Proxy,
    identity: Identity,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "token").write_text("of-the-pod")
    for name, value in identity.variables.items():
        filled = value.format(url=tls_proxy.here.url, token=tmp_path / "token")
        monkeypatch.setenv(name, filled)
    use(open_store(azure.settings(**identity.settings)))
    assert {call.caller for call in tls_proxy.calls} == {"Bearer"}
    agents = {call.headers.get("user-agent", "").partition("/")[0] for call in tls_proxy.calls}
    assert agents == {"object_store", "azsdk-python-storage-blob"}
    sent = [f"{call.target} {call.body.decode()}" for call in tls_proxy.tokens]
    assert all(identity.sends in one for one in sent)
    assert all(TENANT in one for one in sent) == ("tenant_id" in identity.settings)


def test_a_signature_that_may_not_write(
    azure: Azure, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(azure.settings())
    store.write(STAGED, b"x")
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    signature = make_sas("rl")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", signature)
    store = open_store(azure.settings())
    calls: list[Callable[[], object]] = [
        lambda: store.write("segment-data/a", b"x"),
        lambda: store.publish(STAGED, FINAL),
        lambda: store.delete([STAGED]),
    ]
    for call in calls:
        with pytest.raises(
            InsufficientPermissions, match=r"make a new AZURE_.*sp=racwdl"
        ) as caught:
            call()
        assert signature.rpartition("sig=")[2] not in f"{caught.value!r} {caught.value.__cause__!r}"


# Copies


class Later:
    """Answers copies before they are made; each is made at the third question for its status."""

    def __init__(self, end: str = "success") -> None:
        self.end, self.questions, self.copies = end, 0, list[Call]()

    def __call__(self, call: Call, forward: Forward) -> Answer | None:
        if call.action == "CopyObject":
            self.copies.append(call)
            status = {"x-ms-copy-id": "1", "x-ms-copy-status": "pending"}
            return Answer(202, b"", status)
        if call.action == "HeadObject" and self.copies and call.key == self.copies[-1].key:
            return self._status(call, forward)
        return None

    def _status(self, call: Call, forward: Forward) -> Answer:
        self.questions += 1
        if self.questions == 3 and self.end == "success":
            forward(self.copies[-1])
            return forward(call)
        status = self.end if self.questions == 3 else "pending"
        empty = {"x-ms-copy-id": "1", "x-ms-copy-status": status, "x-ms-blob-type": "BlockBlob"}
        return Answer(200, b"", {**empty, "Content-Length": "0"})


def test_a_copy_that_azure_finishes_later_is_waited_for(azure: Azure, proxy: Proxy) -> None:
    store, later = open_store(azure.settings()), Later()
    store.write(STAGED, b"one")
    with proxy.ruled(later):
        store.publish(STAGED, FINAL)
        assert later.questions == 3
        assert store.read(FINAL) == b"one"


@pytest.mark.parametrize("end", ["failed", "aborted"])
def test_a_copy_that_azure_gives_up(azure: Azure, proxy: Proxy, end: str) -> None:
    store = open_store(azure.settings())
    store.write(STAGED, b"one")
    with proxy.ruled(Later(end)), pytest.raises(Unavailable, match=rf"finish the copy.*\({end}\)"):
        store.publish(STAGED, FINAL)
    store.publish(STAGED, FINAL)
    assert store.read(FINAL) == b"one"


def copy_is_pending(call: Call, forward: Forward) -> Answer:
    return refusal(call, 409, "PendingCopyOperation", "There is a pending copy operation.")


@pytest.mark.parametrize("trouble", [slow_down, too_many, done_but_500, copy_is_pending])
def test_a_copy_is_tried_again(azure: Azure, proxy: Proxy, trouble: Callable[..., Answer]) -> None:
    store, once = open_store(azure.settings()), Once(trouble, lambda c: c.action == "CopyObject")
    store.write(STAGED, b"one")
    with proxy.ruled(once):
        store.publish(STAGED, FINAL)
    assert (once.is_over, store.read(FINAL)) == (True, b"one")


def test_a_copy_without_a_container(azure: Azure) -> None:
    store = open_store(azure.settings(storage_container="nowhere"))
    with pytest.raises(InvalidSettings, match="storage_container is 'nowhere'") as caught:
        store.publish(STAGED, FINAL)
    assert KEY not in f"{caught.value!r} {caught.value.__cause__!r}"
