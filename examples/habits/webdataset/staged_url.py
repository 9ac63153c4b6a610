"""WebDataset's "https://...": `stage_in=` brings the files to a folder of each node first.

    horovodrun -np 2 python examples/habits/webdataset/staged_url.py

Needs `pip install 'horovod-opt[remote]'`. Rank 0 is the web server here.
"""

import functools
import http.server
import sys
import threading
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


class Silent(http.server.SimpleHTTPRequestHandler):
    requests = 0

    def log_message(self, *_: object) -> None:
        Silent.requests += 1


def write(folder: Path) -> None:
    for name in ("remote", "node"):
        (folder / name).mkdir()
    write_tars(folder / "remote")


def seen(url: str, node: Path) -> list[int]:
    with hio.open(f"{url}/train-{{000..002}}.tar", seed=1, stage_in=node,
                  stage_limit="1GiB") as data:
        loader = hio.torch.loader(data, 8, decode=lambda sample: int(sample.key), epochs=1)
        return [number for batch in loader for number in batch.tolist()]


with folder_of(hvd, write) as folder:
    url = None
    if hvd.rank() == 0:
        handler = functools.partial(Silent, directory=str(folder / "remote"))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
    url = hvd.broadcast_object(url)
    assert gather(hvd, seen(url, folder / "node")) == list(range(SAMPLES))
    staged = sum(path.stat().st_size for path in (folder / "node").rglob("*.tar"))
    assert staged == sum(path.stat().st_size for path in (folder / "remote").iterdir())
    hvd.barrier()
    if hvd.rank() == 0:
        server.shutdown()
        server.server_close()
    say(hvd, f"{SAMPLES} samples of a web server, {staged:,} bytes on the node")
