"""horovod_opt.io with chunks as large as a node's batch. In the data's own order each chunk is then
one node's; with larger ones, several nodes need records of the same chunk, and all read it."""

from __future__ import annotations

from typing import Optional

from horovod_opt.io.bench.strategies.hio import Hio


class HioChunks(Hio):
    @property
    def chunk_samples(self) -> Optional[int]:
        return self.place.node_batch
