"""moto's server, which does less for each request than under its own command.

    python -m tests.aws.moto_server

It has half of the work of many tests.
"""

from functools import cache
from typing import Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import run_simple


class Application(DomainDispatcherApplication):
    """Remembers which service has which host: moto would list the folders of all each time."""

    def __init__(self) -> None:
        super().__init__(create_backend_app)
        self.get_backend_for_host = cache(  # type: ignore[method-assign]
            super().get_backend_for_host
        )


class RequestHandler(MotoRequestHandler):
    def log_request(self, *_: Any) -> None:
        """Nobody reads it."""


if __name__ == "__main__":
    run_simple("127.0.0.1", 0, Application(), threaded=True, request_handler=RequestHandler)
