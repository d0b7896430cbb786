"""A provider on this machine, and a home whose Pi knows it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TypeVar

from tests.cli.launcher import Terminal

KEY = "sk-secret-value"
ServerT = TypeVar("ServerT", bound=HTTPServer)


class QuietHandler(BaseHTTPRequestHandler):
    """Answers without a word on stderr."""

    def answer(self, status: int, kind: str, data: bytes) -> None:
        """Send a whole answer."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Stay quiet."""


@contextmanager
def serving(server: ServerT) -> Iterator[ServerT]:
    """Let a server answer from a thread."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def settle_in(shell: Terminal, server: HTTPServer, apis: dict[str, str]) -> None:
    """Give a shell a work folder, and a Pi whose providers are a server here, each with the model `m`.

    Args:
        apis: The protocol of each provider by its name.
    """
    (shell.folder / "work").mkdir()
    shell.cwd = str(shell.folder / "work")
    folder = shell.folder / ".pi" / "agent"
    folder.mkdir(parents=True)
    base = f"http://127.0.0.1:{server.server_port}"
    told = {"baseUrl": base, "apiKey": "$MOCK_KEY", "models": [{"id": "m"}]}
    providers = {name: {**told, "api": api} for name, api in apis.items()}
    (folder / "models.json").write_text(json.dumps({"providers": providers}))
    shell.env["MOCK_KEY"] = KEY
