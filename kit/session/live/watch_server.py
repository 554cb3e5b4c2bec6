"""`hsp show --live`: one page on this machine's loopback address, for those who know its path.

A browser may be told by a hostile page to ask here, under another name that leads to 127.0.0.1. So the path
has a random token, and a request must name the loopback address as its host. There is no other file.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from kit.core.errors import ConfigError

ADDRESS = "127.0.0.1"
_HOSTS = frozenset({ADDRESS, "localhost"})
# Streams of events at once: some browsers, and some that were closed and not noticed yet.
MOST_STREAMS = 16
# Of all kinds, a thread and a descriptor each: any local user may connect.
MOST_CONNECTIONS = 48
_REQUEST_DEADLINE_S, _HEARTBEAT_S = 20.0, 10.0
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Channel:
    """The newest message, and the end: what streams of events wait for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._number, self._message, self._end = 0, "", ""
        self.streams = threading.BoundedSemaphore(MOST_STREAMS)

    def send(self, message: str) -> None:
        """`message`: one line."""
        with self._changed:
            self._number, self._message = self._number + 1, message
            self._changed.notify_all()

    def end(self, state: str) -> None:
        with self._changed:
            self._end = state
            self._changed.notify_all()

    def after(self, number: int, deadline_s: float) -> tuple[int, str, str]:
        """Waits for a message after `number`: its number, itself ("" if none came in time), the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > number or self._end, deadline_s)
            return self._number, self._message if self._number > number else "", self._end


class _Handler(BaseHTTPRequestHandler):
    server_version, sys_version, protocol_version = "hsp", "", "HTTP/1.0"
    timeout: ClassVar[float] = _REQUEST_DEADLINE_S
    server: WatchServer

    def handle(self) -> None:
        # The deadline of the base class is of each byte.
        ended = threading.Timer(_REQUEST_DEADLINE_S, self._hang_up)
        ended.daemon, self._asked = True, ended
        ended.start()
        try:
            super().handle()
        finally:
            ended.cancel()

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        self._asked.cancel()
        name = (self.headers.get("Host") or "").rpartition(":")[0] or self.headers.get("Host")
        if name not in _HOSTS:
            self._refuse(HTTPStatus.FORBIDDEN)
            return
        parts = self.path.split("/", 2)
        token, rest = parts[1] if len(parts) > 1 else "", parts[2:]
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse(HTTPStatus.NOT_FOUND)
        elif not rest:
            # The page asks for `events` beside itself.
            self._answer(HTTPStatus.PERMANENT_REDIRECT, "text/plain", b"", Location=f"/{token}/")
        elif rest == [""]:
            self._page()
        elif rest == ["events"]:
            self._events()
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def __getattr__(self, name: str) -> object:
        # The base class asks for do_METHOD of the request.
        if name.startswith("do_"):
            return lambda: self._refuse(HTTPStatus.FORBIDDEN)
        raise AttributeError(name)

    def _refuse(self, status: HTTPStatus) -> None:
        self._answer(status, "text/plain; charset=utf-8", f"{status.phrase}\n".encode())

    def _answer(self, status: HTTPStatus, kind: str, content: bytes | None, **more: str) -> None:
        self.send_response_only(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Connection": "close", **more}.items():
            self.send_header(name, value)
        if content is not None:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content or b"")

    def _page(self) -> None:
        try:
            content = self.server.page()
        except (ConfigError, OSError):
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR)
            return
        self._answer(HTTPStatus.OK, "text/html; charset=utf-8", content)

    def _events(self) -> None:
        channel = self.server.channel
        if not channel.streams.acquire(blocking=False):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        try:
            self._answer(HTTPStatus.OK, "text/event-stream", None)
            number, end = 0, ""
            while not end:
                number, message, end = channel.after(number, _HEARTBEAT_S)
                # A line that is no event: a closed browser is noticed when it is written to.
                self.wfile.write(f"event: phase\ndata: {message}\n\n".encode() if message else b":\n\n")
                self.wfile.flush()
            self.wfile.write(f"event: end\ndata: {end}\n\n".encode())
        finally:
            channel.streams.release()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the path has the token."""


class WatchServer(ThreadingHTTPServer):
    """Serves `page()` at `/TOKEN/`, and the messages of `channel` at `/TOKEN/events`."""

    daemon_threads = True
    # Several browsers may come at once; a socket of another program is not taken over.
    allow_reuse_address = True

    def __init__(self, port: int, page: Callable[[], bytes], channel: Channel) -> None:
        """Raises ConfigError if the port cannot be had."""
        self.page, self.channel, self.token = page, channel, secrets.token_urlsafe(24)
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"--port {port}: {ADDRESS} cannot be listened on: {why}",
                "choose another port, or leave --port out",
            ) from None

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    def wait(self) -> None:
        """Until Ctrl-C."""
        threading.Event().wait()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            # No thread was to be had.
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a browser that was closed."""


def paused(took_s: float, at_least_s: float = 1.0) -> None:
    """Wait so long after work of `took_s` that it takes a fifth of a CPU at most."""
    time.sleep(max(at_least_s, 4 * took_s))
