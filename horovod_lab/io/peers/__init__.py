"""The pipelines that are compared: which data they read, and what they need."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from horovod_lab.io.peers.stream import Place, Stream


@dataclass(frozen=True)
class Peer:
    """`module` and `stream`: the class that opens it on a rank; `format` of its data; `needs`:
    distributions beside this package's own dependencies; `workers`: processes of each rank that
    read for it."""

    name: str
    label: str
    module: str
    stream: str
    format: str
    needs: tuple[str, ...] = ()
    workers: int = 0


PEERS = {peer.name: peer for peer in (
    Peer("hio-tfrecord", "hio, TFRecord", "hio", "Hio", "tfrecord", ("torch",)),
    Peer("hio-lmdb", "hio, LMDB", "hio", "Hio", "lmdb", ("torch",)),
    Peer("py-lmdb", "py-lmdb", "py_lmdb", "Shuffled", "lmdb"),
    Peer("py-lmdb-in-order", "py-lmdb, in order", "py_lmdb", "InOrder", "lmdb"),
    Peer("py-lmdb-strided", "py-lmdb, strided", "py_lmdb", "Strided", "lmdb"),
    Peer("torch", "DataLoader", "torch_data_loader", "TorchDataLoader", "lmdb", ("torch",)),
    Peer("torch-2", "DataLoader, 2 workers", "torch_data_loader", "TorchDataLoader", "lmdb",
         ("torch",), 2),
    Peer("torch-files", "DataLoader, files", "torch_data_loader", "TorchFiles", "files",
         ("torch",)),
    Peer("webdataset", "WebDataset", "streaming_datasets", "WebDataset", "tar", ("webdataset",)),
    Peer("tf-data", "tf.data", "tf_data", "TfData", "tfrecord", ("tensorflow-cpu",)),
    Peer("grain", "Grain", "streaming_datasets", "Grain", "array_record",
         ("grain", "array-record")),
    Peer("mosaicml", "MosaicML Streaming", "streaming_datasets", "Mosaicml", "mds",
         ("mosaicml-streaming", "torch")),
    Peer("litdata", "litData", "streaming_datasets", "LitData", "litdata", ("litdata", "torch")),
)}

# Of several nodes, whose memory holds the data.
KEEPING = Peer("hio-kept", "hio, kept, ordered", "hio", "KeepingHio", "tfrecord", ("torch",))


def stream_of(peer: Peer, place: Place) -> Stream:
    """Opens it on this rank."""
    module = importlib.import_module(f"{__name__}.{peer.module}")
    return getattr(module, peer.stream)(place)
