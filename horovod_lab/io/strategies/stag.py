"""LMDBIO-LMM-DIO-PROV-COAL-STAG (dissertation, 5.2.4): only as many readers read at a time as there
are tokens, neighbours in the file. The others wait for a token of one that has finished."""

from __future__ import annotations

import numpy as np

from horovod_lab.io.ladder.asked import Asked
from horovod_lab.io.ladder.links import Links
from horovod_lab.io.ladder.place import Place
from horovod_lab.io.strategies.coal import Coal
from horovod_opt.io.errors import InputError

TOKEN = b"t"


class Stag(Coal):
    """Groups of `tokens` readers; a reader passes its token to that of the same number in the next
    group, and in the last group to the first one, for the next read. Raises InputError where
    readers are no whole number of groups."""

    def __init__(self, place: Place, links: Links, asked: Asked):
        if place.nodes % place.tokens:
            raise InputError(f"--tokens {place.tokens}: {place.nodes} readers are no whole number "
                             f"of groups; remedy: one of {_divisors(place.nodes)}")
        super().__init__(place, links, asked)
        self._has_token = place.node < place.tokens

    def fetch(self, offset: np.ndarray) -> list[bytes]:
        place = self.place
        if not self._has_token:
            self.links.receive(place.leaders[place.node - place.tokens], TOKEN)
        records = super().fetch(offset)
        after = place.leaders[(place.node + place.tokens) % place.nodes]
        if after != place.rank:
            self.links.send(after, TOKEN)
            self._has_token = False
        return records


def _divisors(number: int) -> str:
    return ", ".join(str(one) for one in range(1, number + 1) if number % one == 0)
