"""zstd, file by file; nothing that is read takes more memory than its index says, and that is at
most MOST_RATIO times what it has in the tar."""

from __future__ import annotations

import threading

from horovod_opt.io.errors import DataError, InputError

SUFFIX = ".zst"  # what a compressed file's name gets in the tar
LEVELS = range(1, 20)
MOST_RATIO = 1000  # above it a file is stored as it is: what is larger once expanded is refused
WORTH = 0.95  # of the size: what does not become smaller than that is stored as it is

_of_thread = threading.local()


def require(what: str) -> None:
    """Raises InputError where the library is not there."""
    try:
        import zstandard  # noqa: F401
    except ImportError as error:
        raise InputError(f"{what} needs zstandard: {error}; remedy: pip install "
                         "'horovod-opt[zstd]'") from error


def compress(data: bytes, level: int) -> bytes | None:
    """A frame with size and checksum; None if it is not worth it."""
    import zstandard

    if len(data) == 0:
        return None
    if getattr(_of_thread, "level", None) != level:
        _of_thread.level = level
        _of_thread.compressor = zstandard.ZstdCompressor(level=level, write_checksum=True,
                                                         write_content_size=True)
    frame = _of_thread.compressor.compress(data)
    return frame if is_worth(len(frame), len(data)) else None


def is_worth(size: int, raw_size: int) -> bool:
    """Whether a file is stored compressed."""
    return raw_size / MOST_RATIO <= size < WORTH * raw_size


def expand(frame: bytes, raw_size: int, name: str) -> bytes:
    """Raises DataError for what is no frame of exactly `raw_size` bytes, before it takes memory."""
    import zstandard

    try:
        if zstandard.frame_content_size(frame) != raw_size:
            raise zstandard.ZstdError("another size than the index has")
        if not hasattr(_of_thread, "expander"):
            _of_thread.expander = zstandard.ZstdDecompressor()
        return _of_thread.expander.decompress(frame, read_across_frames=False,
                                              allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise DataError(f"{name}: cannot be expanded to {raw_size} bytes: {error}; remedy: pack it "
                        "again") from error
