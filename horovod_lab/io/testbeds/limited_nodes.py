"""Nodes whose memory has a limit: what the slow testbeds have in common."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import ClassVar

from horovod_lab.io.testbeds import control_groups, requirements
from horovod_lab.io.testbeds.control_groups import Group, MemoryGroup
from horovod_lab.io.testbeds.nodes import NETWORK_PROGRAMS, PROGRAMS, Nodes
from horovod_lab.io.testbeds.testbed import Testbed

MEMORY = "memory"


class LimitedNodes(Testbed):
    """A subclass mounts its storage. What that needs: `programs`, `devices`, and `controllers` of
    control groups, of which all nodes share one each."""

    programs: ClassVar[Sequence[str]] = ()
    devices: ClassVar[Sequence[Path]] = ()
    controllers: ClassVar[Sequence[str]] = ()

    @classmethod
    def check(cls, nodes: int) -> None:
        networks = NETWORK_PROGRAMS if nodes > 1 else ()
        requirements.check(f"--stand {cls.name}", (*PROGRAMS, *networks, *cls.programs),
                           cls.devices)
        cls._hierarchies()

    @classmethod
    def _hierarchies(cls) -> dict[str, Path]:
        """Of the control groups, by controller."""
        return {controller: control_groups.hierarchy(cls.name, controller)
                for controller in (MEMORY, *cls.controllers)}

    def _make(self, stack: ExitStack) -> None:
        self._roots = self._hierarchies()
        for root in self._roots.values():
            control_groups.remove_leftovers(root)
        nodes = self._node_set = stack.enter_context(closing(Nodes(self.nodes)))
        self._limits = [
            stack.enter_context(closing(MemoryGroup(self._roots[MEMORY], f"node{node}")))
            for node in range(self.nodes)]
        self._groups = {
            controller: stack.enter_context(closing(Group(self._roots[controller], "nodes")))
            for controller in self.controllers}
        self._mount(stack, nodes)

    def _mount(self, stack: ExitStack, nodes: Nodes) -> None:
        """Over the data's folder, in each node."""
        raise NotImplementedError

    def command(self, node: int, argv: Sequence[str], network: bool = True) -> list[str]:
        groups = (self._limits[node], *self._groups.values())
        join = " && ".join(f"echo $$ >{shlex.quote(str(group.procs))}" for group in groups)
        return ["sh", "-c", f'{join} && exec "$@"', "sh",
                *self._node_set.enter(node, network), *argv]

    def begin(self) -> None:
        for group in self._limits:
            group.limit(group.usage() + self.memory)

    def release(self) -> None:
        for group in self._limits:
            group.lift_limit()

    def count_memory_kills(self) -> int:
        return sum(group.count_kills() for group in self._limits)
