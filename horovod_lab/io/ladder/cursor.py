"""A cursor of our own: goes over the records in the order of their keys, looks at the pages that
LMDB's looks at, and says where it is, for another process to go on there.

LMDB's cursor comes to each record that it skips, and checks the first page of each value that has
pages of its own (mdb_node_read): so to skip a record of 3 KB is to read it.
"""

from __future__ import annotations

from typing import Optional

from horovod_lab.io.ladder.pages import Pages, Value, damage_error

DEEPEST = 32  # levels that LMDB's own cursor can hold (CURSOR_STACK)
State = list[tuple[int, int]]  # from the root down: page, and the number of the node in it


class Cursor:
    """Begins at the first record; after the last one comes the first (5.2.2)."""

    def __init__(self, pages: Pages, root: int):
        self._pages, self._root = pages, root
        self._path: State = []  # empty: before the first record
        self._nodes: dict[int, list] = {}  # what the pages of the path hold

    def state(self) -> State:
        return list(self._path)

    def go_to(self, state: State) -> None:
        """Where another cursor of the same file was. Reads nothing yet."""
        self._path = list(state)
        self._keep_nodes_of_path()

    def take(self, count: int) -> list[Value]:
        """The next `count` records."""
        records: list[Value] = []
        while len(records) < count:
            if not self._path:
                self._descend(self._root)
            leaf, index = self._path[-1]
            values = self._nodes_of(leaf)
            end = min(len(values), index + count - len(records))
            for value in values[index:end]:
                self._pages.look_at(value)
            records += values[index:end]
            self._path[-1] = (leaf, end)
            if end == len(values):
                self._go_to_next_leaf()
        return records

    def _go_to_next_leaf(self) -> None:
        self._path.pop()
        while self._path:
            page, index = self._path.pop()
            if index + 1 < len(self._nodes_of(page)):
                self._path.append((page, index + 1))
                return self._descend(self._nodes_of(page)[index + 1])

    def _descend(self, page: int) -> None:
        """To the first leaf below the page."""
        while not self._pages.is_leaf(page):
            if len(self._path) == DEEPEST:
                raise damage_error(page, f"is more than {DEEPEST} levels below the root")
            self._path.append((page, 0))
            page = self._nodes_of(page, False)[0]
        self._path.append((page, 0))
        self._keep_nodes_of_path()

    def _keep_nodes_of_path(self) -> None:
        pages = {page for page, _ in self._path}
        self._nodes = {page: nodes for page, nodes in self._nodes.items() if page in pages}

    def _nodes_of(self, page: int, leaf: Optional[bool] = None) -> list:
        if page not in self._nodes:
            if leaf is None:
                leaf = self._pages.is_leaf(page)
            self._nodes[page] = self._pages.values(page) if leaf else self._pages.children(page)
        return self._nodes[page]
