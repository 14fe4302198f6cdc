"""HTTP for the stand-in workspace: routes, sign-in, and faults that a test asks for."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Body = Mapping[str, Any]
Answer = Mapping[str, Any]


class Refused(Exception):
    """An answer with an error, in the form of the API."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.body = status, {"error_code": code, "message": message}


@dataclass(frozen=True)
class Request:
    """A request: `values` has the query and the body together, `rest` the end of the path."""

    method: str
    path: str
    values: Body
    headers: Mapping[str, str]
    rest: str = ""
    principal: str = ""

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class Fault:
    """What happens to requests whose name fits a pattern, for a number of times."""

    pattern: str
    status: int = 0
    """The answer instead of the right one; 0 for a connection that ends without an answer."""
    times: int = 1
    after: bool = False
    """Whether the request is carried out all the same, and only its answer is lost."""
    message: str = "the stand-in was told so"
    code: str = "FAULT"

    def fits(self, request: Request) -> bool:
        return self.times > 0 and re.search(self.pattern, request.name) is not None


@dataclass
class Server:
    """Answers requests by a table of routes, and remembers them."""

    routes: Mapping[str, Callable[[Request], Answer]]
    """By method and path; a path that ends in / takes what follows as `rest`."""
    sign_in: Callable[[Mapping[str, str]], str]
    """The principal of a request's headers; raises Refused."""
    open_paths: Mapping[str, Callable[[Request], Answer]]
    """Paths that need no token."""
    faults: list[Fault] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Request) -> Answer | None:
        """The answer to a request; None if the connection is to end without one."""
        with self.lock:
            self.requests.append(request)
            fault = next((one for one in self.faults if one.fits(request)), None)
            if fault is not None:
                fault.times -= 1
        if fault is not None and fault.status:
            raise Refused(fault.status, fault.code, fault.message)
        if fault is not None and not fault.after:
            return None
        done = self._handle(request)
        return None if fault is not None else done

    def _handle(self, request: Request) -> Answer:
        if request.path in self.open_paths:
            return self.open_paths[request.path](request)
        principal = self.sign_in(request.headers)
        for length in range(len(request.path), 0, -1):
            known, rest = request.path[:length], unquote(request.path[length:])
            if (not rest) != known.endswith("/") and f"{request.method} {known}" in self.routes:
                route = self.routes[f"{request.method} {known}"]
                return route(
                    Request(
                        request.method, request.path, request.values, request.headers, rest,
                        principal,
                    )
                )  # fmt: skip
        raise Refused(404, "ENDPOINT_NOT_FOUND", f"No API found for '{request.name}'")

    def named(self, pattern: str) -> list[Request]:
        return [one for one in self.requests if re.search(pattern, one.name)]

    @contextmanager
    def listening(self) -> Iterator[str]:
        """Answer requests at the address that is yielded."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            place = urlsplit(self.path)
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            values = {name: found[0] for name, found in parse_qs(place.query).items()}
            values |= _parse_body(text, self.headers.get("Content-Type", ""))
            path = place.path.rstrip("/")
            request = Request(self.command, path, values, dict(self.headers))
            try:
                status, said = 200, server.answer(request)
            except Refused as problem:
                status, said = problem.status, problem.body
            if said is None:
                self.close_connection = True
                return
            self.write(status, json.dumps(said).encode())

        def write(self, status: int, text: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            if status == 429:
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = respond  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Silent."""

    return Handler


def _parse_body(text: bytes, kind: str) -> dict[str, Any]:
    if not text:
        return {}
    if "form-urlencoded" in kind:
        return {name: found[0] for name, found in parse_qs(text.decode()).items()}
    found: dict[str, Any] = json.loads(text)
    return found
