"""An AWS that denies everything, as S3 and Glue say it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

S3_DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
GLUE_DENIED = json.dumps({"__type": "AccessDeniedException", "message": "no"}).encode()


class Denies(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_glue = "X-Amz-Target" in self.headers
        body = GLUE_DENIED if is_glue else S3_DENIED
        self.send_response(400 if is_glue else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815 - their names

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def denying_aws() -> Iterator[dict[str, str]]:
    """The environment of a process whose AWS is this one."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Denies) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }
        server.shutdown()
