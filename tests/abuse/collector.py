"""`python -m tests.abuse.collector HOST PORT KEY SEED SECONDS`: clients that do everything wrong.

Prints a JSON object of the answers that they got: how many of each status.
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
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from threading import Thread

CLIENTS = 6
RESET = struct.pack("ii", 1, 0)


@dataclass
class Attacker:
    """One thread of random requests."""

    address: tuple[str, int]
    key: str
    random: random.Random
    until: float
    statuses: Counter[int] = field(default_factory=Counter)

    def run(self) -> None:
        while time.monotonic() < self.until:
            with suppress(OSError):  # a reset, a refused connection, a full send buffer
                self.random.choice(ATTACKS)(self)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=1)

    def send(self, *pieces: bytes, wait: float = 0.5) -> None:
        """Send on a connection of its own, count the answers, and go, sometimes with a reset."""
        with self.connect() as client:
            with suppress(OSError):
                for piece in pieces:
                    client.sendall(piece)
            self.count_answers(client, wait)
            if self.random.random() < 0.2:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    def count_answers(self, client: socket.socket, wait: float) -> None:
        client.settimeout(wait)
        text = b""
        with suppress(OSError):
            while (piece := client.recv(65_536)) and len(text) < 1 << 20:
                text += piece
                if text.endswith((b"}", b";")):  # JSON, or the picture
                    break
        for answer in text.split(b"HTTP/1.1 ")[1:]:
            self.statuses[int(answer[:3])] += 1

    def header(self, *lines: bytes, path: bytes = b"/v1/track") -> bytes:
        """A header with the key somewhere, wrong, or nowhere; the last empty line is missing."""
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


def partial_header(it: Attacker) -> None:
    request = it.request(it.event())
    it.send(request[: it.random.randrange(len(request))], wait=it.random.random())


def slow_bytes(it: Attacker) -> None:
    with it.connect() as client:
        for byte in it.request(it.event()):
            client.sendall(bytes([byte]))
            time.sleep(0.001 * it.random.random())
        it.count_answers(client, 1)


def wrong_length(it: Attacker) -> None:
    body, lie = it.event(), it.random.choice([0, 3, 400, 511_000, 10**7, 10**30])
    it.send(it.header(b"content-length: %d" % lie) + b"\r\n", body, wait=0.3)


def announced_bodies(it: Attacker) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(it.connect()) for _ in range(40)]
        for client in clients:
            client.sendall(b"POST /v1/batch HTTP/1.1\r\ncontent-length: 511000\r\n\r\n")
            with suppress(OSError):
                client.sendall(b" " * it.random.choice([0, 1000, 510_000]))
        time.sleep(it.random.random())


def gzip_bomb(it: Attacker) -> None:
    it.send(it.request(BOMB, b"content-encoding: gzip", path=b"/v1/batch"))
    it.send(it.request(it.random.randbytes(300), b"content-encoding: gzip"))


def upgrade(it: Attacker) -> None:
    names = [b"h2c", b"websocket", b"x"]
    lines = [b"upgrade: " + it.random.choice(names), b"connection: Upgrade, HTTP2-Settings"]
    it.send(it.request(it.event(), *lines), it.random.randbytes(it.random.randrange(200)))


def pipeline(it: Attacker) -> None:
    one = it.random.choice([b"GET /health HTTP/1.1\r\n\r\n", it.request(it.event())])
    with it.connect() as client:
        client.settimeout(0.3)
        client.sendall(one * it.random.choice([2, 100, 5_000]))
        if it.random.random() < 0.5:
            it.count_answers(client, 0.3)


def burst(it: Attacker) -> None:
    with ExitStack() as stack:
        for _ in range(it.random.choice([20, 300])):
            client = stack.enter_context(it.connect())
            client.sendall(it.random.choice([b"", b"G", b"GET /health HTTP/1.1\r\n\r\n"]))


def huge_header(it: Attacker) -> None:
    name = b"x" * it.random.choice([1, 100, 70_000])
    line = name + b": " + b"y" * it.random.choice([1, 1000, 100_000])
    it.send(it.header(*[line] * it.random.choice([1, 100, 1000])) + b"\r\n")
    it.send(b"GET /" + b"a" * it.random.choice([60_000, 70_000, 10**6]) + b" HTTP/1.1\r\n\r\n")


def chunked(it: Attacker) -> None:
    ending = it.random.choice(
        [b"0\r\n\r\n", b"0\r\n" + b"t: u\r\n" * 50_000, b"1;" + b"e" * 99_999]
    )
    head = it.header(b"transfer-encoding: chunked") + b"\r\n"
    it.send(head, b"".join(b"1\r\n%c\r\n" % byte for byte in it.event()), ending)


def deep(it: Attacker) -> None:
    levels = it.random.choice([99, 101, 500, *range(940, 1010, 5), 5000, 100_000])
    nested = b"[" * levels + b"]" * levels
    event = b'{"userId":"abuse","type":"page","writeKey":"%s","a":%s}' % (it.key.encode(), nested)
    it.send(it.request(event, path=b"/v1/page"))
    it.send(it.request(b'{"batch":[%s,%s]}' % (event, it.event()), path=b"/v1/batch"))
    it.send(it.request(b'{"context":%s,"batch":[{}]}' % nested, path=b"/v1/batch"))
    coded = urlsafe_b64encode(event[:40_000])
    it.send(b"GET /v1/pixel/page?data=" + coded + b" HTTP/1.1\r\n\r\n")


def numbers(it: Attacker) -> None:
    number = it.random.choice([b"1e999", b"-1e-999", b"9" * 5000, b"01", b"1e", b"NaN"])
    name = it.random.choice([b"userId", b"event", b"timestamp", b"sentAt", b"writeKey", b"type"])
    event = b'{"anonymousId":"abuse","type":"page","%s":%s}' % (name, number)
    it.send(it.request(event, path=b"/v1/page"))
    it.send(it.request(b'{"batch":[%s],"sentAt":%s}' % (event, number), path=b"/v1/batch"))


def garbage(it: Attacker) -> None:
    it.send(it.random.randbytes(it.random.choice([1, 100, 100_000])))


def flipped(it: Attacker) -> None:
    request = bytearray(it.request(it.event(), b"content-type: text/plain"))
    for _ in range(it.random.randrange(1, 6)):
        request[it.random.randrange(len(request))] = it.random.randrange(256)
    it.send(bytes(request))


def many_lines(it: Attacker) -> None:
    """A small body that becomes megabytes of lines."""
    context = b'{"a":"%s"}' % (b"x" * 700)
    events = b",".join([b'{"type":"page","userId":"abuse"}'] * 2_400)
    body = b'{"writeKey":"%s","context":%s,"batch":[%s]}' % (it.key.encode(), context, events)
    it.send(it.request(body, path=b"/v1/batch"), wait=2)


BOMB = gzip.compress(b" " * (50 << 20))
ATTACKS: list[Callable[[Attacker], None]] = [
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
