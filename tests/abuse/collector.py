"""`python -m tests.abuse.collector HOST PORT KEY SEED SECONDS`: clients that misbehave.

Prints a JSON object with the number of replies for each status.
"""

import gzip
import json
import random
import socket
import struct
import sys
import time
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from threading import Thread

CLIENTS = 6
RESET = struct.pack("ii", 1, 0)


@dataclass
class Attacker:
    """Sends each attack once and random ones until a deadline; counts the replies by status."""

    address: tuple[str, int]
    key: str
    random: random.Random
    until: float
    statuses: Counter[int] = field(default_factory=Counter)

    def run(self) -> None:
        for attack in self.attacks():
            with suppress(OSError):  # a reset, a refused connection, a full send buffer
                attack(self)

    def attacks(self) -> Iterator["Attack"]:
        yield from self.random.sample(ATTACKS, len(ATTACKS))
        while time.monotonic() < self.until:
            yield self.random.choice(ATTACKS)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=1)

    def send(self, *pieces: bytes, wait: float = 0.5) -> None:
        """Send on a new connection, count the replies, and close it, sometimes with a reset."""
        with self.connect() as client:
            with suppress(OSError):
                for piece in pieces:
                    client.sendall(piece)
            self.count_replies(client, wait)
            if self.random.random() < 0.2:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    def count_replies(self, client: socket.socket, wait: float) -> None:
        client.settimeout(wait)
        text = b""
        with suppress(OSError):
            while (piece := client.recv(65_536)) and len(text) < 1 << 20:
                text += piece
                if text.endswith((b"}", b";")):  # JSON, or the GIF
                    break
        for answer in text.split(b"HTTP/1.1 ")[1:]:
            self.statuses[int(answer[:3])] += 1

    def header(self, *lines: bytes, path: bytes = b"/v1/track") -> bytes:
        """Return a header with a valid, wrong or no key, without the empty line at its end."""
        basic = b"authorization: Basic " + b64encode(f"{self.key}:".encode())
        wrong = b"authorization: Basic " + b64encode(self.random.randbytes(9))
        keys = self.random.choice([[], [], [basic], [wrong], [basic, wrong], [b"authorization: x"]])
        head = b"POST " + path + b" HTTP/1.1"
        return b"\r\n".join([head, b"host: x", *keys, *lines]) + b"\r\n"

    def request(self, body: bytes, *lines: bytes, path: bytes = b"/v1/track") -> bytes:
        return self.header(*lines, b"content-length: %d" % len(body), path=path) + b"\r\n" + body

    def event(self) -> bytes:
        key = self.random.choice([self.key, "wrong", 5, None])
        event = {"userId": "abuse", "event": "x", "type": "track", "writeKey": key}
        return json.dumps(event).encode()


def partial_header(attacker: Attacker) -> None:
    request = attacker.request(attacker.event())
    attacker.send(request[: attacker.random.randrange(len(request))], wait=attacker.random.random())


def slow_bytes(attacker: Attacker) -> None:
    with attacker.connect() as client:
        for byte in attacker.request(attacker.event()):
            client.sendall(bytes([byte]))
            time.sleep(0.001 * attacker.random.random())
        attacker.count_replies(client, 1)


def wrong_length(attacker: Attacker) -> None:
    body, length = attacker.event(), attacker.random.choice([0, 3, 400, 511_000, 10**7, 10**30])
    attacker.send(attacker.header(b"content-length: %d" % length) + b"\r\n", body, wait=0.3)


def announced_bodies(attacker: Attacker) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(attacker.connect()) for _ in range(40)]
        for client in clients:
            client.sendall(b"POST /v1/batch HTTP/1.1\r\ncontent-length: 511000\r\n\r\n")
            with suppress(OSError):
                client.sendall(b" " * attacker.random.choice([0, 1000, 510_000]))
        time.sleep(attacker.random.random())


def gzip_bomb(attacker: Attacker) -> None:
    attacker.send(attacker.request(BOMB, b"content-encoding: gzip", path=b"/v1/batch"))
    attacker.send(attacker.request(attacker.random.randbytes(300), b"content-encoding: gzip"))


def upgrade(attacker: Attacker) -> None:
    names = [b"h2c", b"websocket", b"x"]
    lines = [b"upgrade: " + attacker.random.choice(names), b"connection: Upgrade, HTTP2-Settings"]
    attacker.send(
        attacker.request(attacker.event(), *lines),
        attacker.random.randbytes(attacker.random.randrange(200)),
    )


def pipeline(attacker: Attacker) -> None:
    one = attacker.random.choice(
        [b"GET /health HTTP/1.1\r\n\r\n", attacker.request(attacker.event())]
    )
    with attacker.connect() as client:
        client.settimeout(0.3)
        client.sendall(one * attacker.random.choice([2, 100, 5_000]))
        if attacker.random.random() < 0.5:
            attacker.count_replies(client, 0.3)


def burst(attacker: Attacker) -> None:
    with ExitStack() as stack:
        for _ in range(attacker.random.choice([20, 300])):
            client = stack.enter_context(attacker.connect())
            client.sendall(attacker.random.choice([b"", b"G", b"GET /health HTTP/1.1\r\n\r\n"]))


def huge_header(attacker: Attacker) -> None:
    name = b"x" * attacker.random.choice([1, 100, 70_000])
    line = name + b": " + b"y" * attacker.random.choice([1, 1000, 100_000])
    attacker.send(attacker.header(*[line] * attacker.random.choice([1, 100, 1000])) + b"\r\n")
    attacker.send(
        b"GET /" + b"a" * attacker.random.choice([60_000, 70_000, 10**6]) + b" HTTP/1.1\r\n\r\n"
    )


def chunked(attacker: Attacker) -> None:
    ending = attacker.random.choice(
        [b"0\r\n\r\n", b"0\r\n" + b"t: u\r\n" * 50_000, b"1;" + b"e" * 99_999]
    )
    head = attacker.header(b"transfer-encoding: chunked") + b"\r\n"
    attacker.send(head, b"".join(b"1\r\n%c\r\n" % byte for byte in attacker.event()), ending)


def deep(attacker: Attacker) -> None:
    levels = attacker.random.choice([99, 101, 500, *range(940, 1010, 5), 5000, 100_000])
    nested = b"[" * levels + b"]" * levels
    event = b'{"userId":"abuse","type":"page","writeKey":"%s","a":%s}' % (
        attacker.key.encode(),
        nested,
    )
    attacker.send(attacker.request(event, path=b"/v1/page"))
    attacker.send(
        attacker.request(b'{"batch":[%s,%s]}' % (event, attacker.event()), path=b"/v1/batch")
    )
    attacker.send(attacker.request(b'{"context":%s,"batch":[{}]}' % nested, path=b"/v1/batch"))
    coded = urlsafe_b64encode(event[:40_000])
    attacker.send(b"GET /v1/pixel/page?data=" + coded + b" HTTP/1.1\r\n\r\n")


def numbers(attacker: Attacker) -> None:
    number = attacker.random.choice([b"1e999", b"-1e-999", b"9" * 5000, b"01", b"1e", b"NaN"])
    name = attacker.random.choice(
        [b"userId", b"event", b"timestamp", b"sentAt", b"writeKey", b"type"]
    )
    event = b'{"anonymousId":"abuse","type":"page","%s":%s}' % (name, number)
    attacker.send(attacker.request(event, path=b"/v1/page"))
    attacker.send(
        attacker.request(b'{"batch":[%s],"sentAt":%s}' % (event, number), path=b"/v1/batch")
    )


def garbage(attacker: Attacker) -> None:
    attacker.send(attacker.random.randbytes(attacker.random.choice([1, 100, 100_000])))


def flipped(attacker: Attacker) -> None:
    request = bytearray(attacker.request(attacker.event(), b"content-type: text/plain"))
    for _ in range(attacker.random.randrange(1, 6)):
        request[attacker.random.randrange(len(request))] = attacker.random.randrange(256)
    attacker.send(bytes(request))


def many_lines(attacker: Attacker) -> None:
    """Send a small body that becomes megabytes of lines."""
    context = b'{"a":"%s"}' % (b"x" * 700)
    events = b",".join([b'{"type":"page","userId":"abuse"}'] * 2_400)
    body = b'{"writeKey":"%s","context":%s,"batch":[%s]}' % (attacker.key.encode(), context, events)
    attacker.send(attacker.request(body, path=b"/v1/batch"), wait=2)


BOMB = gzip.compress(b" " * (50 << 20))
Attack = Callable[[Attacker], None]
ATTACKS: list[Attack] = [
    partial_header,
    slow_bytes,
    wrong_length,
    announced_bodies,
    gzip_bomb,
    upgrade,
    pipeline,
    burst,
    huge_header,
    chunked,
    deep,
    numbers,
    garbage,
    flipped,
    many_lines,
]


def main(host: str, port: str, key: str, seed: str, seconds: str) -> None:
    until = time.monotonic() + float(seconds)
    attackers = [
        Attacker((host, int(port)), key, random.Random(f"{seed}-{number}"), until)
        for number in range(CLIENTS)
    ]
    threads = [Thread(target=attacker.run) for attacker in attackers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = sum((attacker.statuses for attacker in attackers), Counter[int]())
    sys.stdout.write(json.dumps(statuses))


if __name__ == "__main__":
    main(*sys.argv[1:])
