"""Where data may be: a folder, a web server, an S3 server; each on this machine."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

KINDS = ("folder", "http", "s3")


class Requests(list):
    """What was asked for, and got: (name, first byte, byte after the last). `allowed`: how many
    bytes are given before requests fail."""

    allowed = 1 << 60

    def bytes(self, name: str = "") -> int:
        return sum(end - begin for asked, begin, end in self if name in asked)


class _Handler(SimpleHTTPRequestHandler):
    """With ranges, which Python's own does not know."""

    def __init__(self, log: Requests, *arguments, **options):
        self._log = log
        super().__init__(*arguments, **options)

    def do_HEAD(self) -> None:
        self._answer(False)

    def do_GET(self) -> None:
        self._answer(True)

    def _answer(self, with_body: bool) -> None:
        path = Path(self.translate_path(unquote(self.path)))
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        begin, end = (int(match[1]), min(int(match[2]) + 1, len(data))) if match else (0, len(data))
        if with_body and self._log.bytes() + end - begin > self._log.allowed:
            self.send_error(503)
            return
        if with_body:
            self._log.append((path.name, begin, end))
        self.send_response(206 if match else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{path.stat().st_mtime_ns}"')
        self.send_header("Content-Length", str(end - begin))
        if match:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
        self.end_headers()
        if with_body:
            self.wfile.write(data[begin:end])

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def web_server(root: Path) -> Iterator[tuple[str, Requests]]:
    """Its address, and what it was asked for."""
    log = Requests()
    server = ThreadingHTTPServer(("127.0.0.1", 0),
                                 partial(_Handler, log, directory=os.fspath(root)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", log
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def s3_server(root: Path, monkeypatch) -> Iterator[str]:
    """The address of a bucket with the files of a folder."""
    import logging

    import s3fs
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in (("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret"),
                        ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
                        ("AWS_DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    files, bucket = s3fs.S3FileSystem(), f"bucket-{port}-{time.time_ns()}"
    try:
        files.mkdir(bucket)
        for path in root.rglob("*"):
            if path.is_file():
                files.pipe(f"{bucket}/{path.relative_to(root)}", path.read_bytes())
        yield f"s3://{bucket}"
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
        server.stop()


@contextmanager
def served(kind: str, root: Path, monkeypatch) -> Iterator[str]:
    """The address of a folder's files, where a server of this kind has them."""
    if kind == "folder":
        yield str(root)
    elif kind == "http":
        with web_server(root) as (address, _):
            yield address
    else:
        with s3_server(root, monkeypatch) as address:
            yield address
