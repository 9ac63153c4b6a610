"""What a pack has, as the tree that csrc/io/overlay/file_table.h describes."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from horovod_opt.io.errors import InputError
from horovod_opt.io.index.pack_index import PackIndex

MAGIC = b"HOPFILE2"
AT_STORE = 0xFFFFFFFF  # the part of a file that the store hands over
HEADER = np.dtype([("magic", "S8"), *[(name, "<u8") for name in (
    "bytes", "files_at", "parts_at", "roots_at", "store_at", "counters_at", "outputs_at",
    "outputs_device", "device")], *[(name, "<u4") for name in (
        "files", "parts", "roots", "id", "uid", "gid", "has_unnamed", "reserved")]])
ENTRY = np.dtype([*[(name, "<u8") for name in ("name_at", "size", "offset")], ("mtime_ns", "<i8"),
                  *[(name, "<u4") for name in ("name_length", "mode", "part", "crc", "parent",
                                               "first", "count", "reserved")]])
FOLDER_MODE = stat.S_IFDIR | 0o555
WRITTEN_FOLDER_MODE = stat.S_IFDIR | 0o755  # with outputs


@dataclass(frozen=True)
class Overlay:
    """`roots`: paths of the folder that programs see, as it was given and without links; `parts`:
    where each tar lies on this node, None for one that does not. `store`: the name of the store's
    socket; `counters`: the path of the counters' page; `id`: 32 bits that tell tables apart.
    `outputs`: the path of the folder for what programs write, "" where they may not; there files
    are of `outputs_device`, and need no name if `has_unnamed`."""

    roots: Sequence[str]
    parts: Sequence[str | None]
    store: str
    counters: str
    id: int
    uid: int
    gid: int
    outputs: str = ""
    outputs_device: int = 0
    has_unnamed: bool = False


class Tree:
    """Files and folders of a pack, by number; 0 is the pack itself. `rows[number]`: of which row of
    the index it is, -1 for a folder."""

    def __init__(self, pack: PackIndex):
        folders: dict[bytes, list[tuple[bytes, int]]] = {b"": []}
        for row, path in enumerate(_texts(pack)):
            folder, _, name = path.rpartition(b"/")
            _folder(folders, folder).append((name, row))
        for path in pack.folders:
            _folder(folders, path.encode())
        self.rows, self.names, self.parents = [-1], [b""], [0]
        self.first, self.count = [], []
        queue: list[bytes | None] = [b""]
        for number, path in enumerate(queue):
            entries = sorted(folders[path]) if path is not None else []
            self.first.append(len(queue))
            self.count.append(len(entries))
            for name, row in entries:
                if name == self.names[-1] and self.parents[-1] == number:
                    raise InputError(f"{(path or b'').decode()}/{name.decode()}: a file and a "
                                     "folder of one name; remedy: pack again")
                queue.append(None if row >= 0 else path + b"/" + name if path else name)
                self.names.append(name)
                self.rows.append(row)
                self.parents.append(number)


def table_bytes(pack: PackIndex, tree: Tree, overlay: Overlay) -> bytes:
    """The table that programs map."""
    rows = np.array(tree.rows, np.int64)
    is_file = rows >= 0
    files = rows[is_file]
    entries = np.zeros(len(rows), ENTRY)
    entries["name_length"] = [len(name) for name in tree.names]
    for name in ("parents", "first", "count"):
        entries[name.rstrip("s")] = getattr(tree, name)
    entries["mode"] = WRITTEN_FOLDER_MODE if overlay.outputs else FOLDER_MODE
    entries["mode"][is_file] = stat.S_IFREG | pack.mode[files]
    entries["mtime_ns"] = pack.mtime.max(initial=0)
    entries["mtime_ns"][is_file] = pack.mtime[files]
    entries["size"][is_file] = pack.raw_size[files]
    entries["offset"][is_file] = pack.offset[files]
    entries["crc"][is_file] = pack.crc[files]
    is_here = np.array([path is not None for path in overlay.parts], bool)
    direct = is_here[pack.file[files]] & (pack.raw_size[files] == pack.size[files])
    entries["part"][is_file] = np.where(direct, pack.file[files], AT_STORE)

    texts, place = [], HEADER.itemsize + entries.nbytes
    texts_at = place + 8 * (len(overlay.parts) + len(overlay.roots))
    ends = np.cumsum([0] + [len(name) + 1 for name in tree.names])
    entries["name_at"] = texts_at + ends[:-1]
    texts.extend(name + b"\0" for name in tree.names)
    end = texts_at + int(ends[-1])

    def put(text: str) -> int:
        nonlocal end
        texts.append(text.encode() + b"\0")
        end += len(texts[-1])
        return end - len(texts[-1])

    places = [put(path or "") for path in overlay.parts] + [put(root) for root in overlay.roots]
    header = np.zeros(1, HEADER)
    header["magic"], header["files_at"], header["parts_at"] = MAGIC, HEADER.itemsize, place
    header["roots_at"] = place + 8 * len(overlay.parts)
    header["store_at"], header["counters_at"] = put(overlay.store), put(overlay.counters)
    header["outputs_at"], header["outputs_device"] = put(overlay.outputs), overlay.outputs_device
    header["has_unnamed"] = overlay.has_unnamed
    header["files"], header["parts"] = len(rows), len(overlay.parts)
    header["roots"], header["id"] = len(overlay.roots), overlay.id
    header["uid"], header["gid"] = overlay.uid, overlay.gid
    # A device that no file system has: of the range of those without a name, its end.
    header["device"] = 0xFFF00 | overlay.id & 0xFF
    header["bytes"] = end
    return b"".join([header.tobytes(), entries.tobytes(), np.array(places, "<u8").tobytes(),
                     *texts])


def _texts(pack: PackIndex) -> list[bytes]:
    return [pack.paths.raw(i) for i in range(len(pack.paths))]


def _folder(folders: dict[bytes, list[tuple[bytes, int]]], path: bytes) -> list[tuple[bytes, int]]:
    """The entries of the folder `path`, which its own folder gets, too."""
    if path not in folders:
        folders[path] = []
        above, _, name = path.rpartition(b"/")
        _folder(folders, above).append((name, -1))
    return folders[path]
