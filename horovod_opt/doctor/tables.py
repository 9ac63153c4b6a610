"""How `horovod-opt doctor` shows its facts and findings."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from horovod_opt import cpu_set, settings
from horovod_opt.doctor.findings import Finding
from horovod_opt.doctor.inspection import Facts, Framework, mpi_name


def show(facts: Facts, findings: Sequence[Finding], console: Console) -> None:
    """Prints the tables, the findings last."""
    console.print(_versions(facts))
    console.print(_builds(facts))
    console.print(_machine(facts))
    console.print(_settings(facts))
    if not findings:
        console.print("[bold green]Nothing is wrong.[/]")
    for finding in findings:
        label = "[bold red]problem[/]" if finding.problem else "[bold yellow]note[/]   "
        console.print(f"{label}  {escape(finding.text)}", soft_wrap=True)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", show_lines=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _versions(facts: Facts) -> Table:
    table = _table("Versions", "", "version", "where")
    table.add_row("horovod-opt", facts.horovod_opt)
    table.add_row("horovod", facts.horovod or "[red]missing[/]", escape(facts.horovod_path))
    table.add_row("Python", facts.python)
    return table


def _builds(facts: Facts) -> Table:
    table = _table("Frameworks", "", "installed", "built against", "built with", "MPI library")
    for framework in facts.frameworks:
        table.add_row(
            framework.name,
            framework.installed or "[red]missing[/]",
            framework.built_against or "-",
            _describe_parts(framework),
            escape(f"{mpi_name(framework.mpi_version)} {framework.libmpi}".strip()) or "-",
        )
    return table


def _describe_parts(framework: Framework) -> str:
    if not framework.library:
        return "not built"
    if framework.error:
        return "[red]does not load[/]"
    return ", ".join(part for part, built in framework.parts.items() if built) or "nothing"


def _machine(facts: Facts) -> Table:
    table = _table(f"This node, for {facts.ranks} ranks", "", "")
    table.add_row("mpirun", escape(f"{facts.mpirun_version} {facts.mpirun}".strip()) or "missing")
    table.add_row("CPUs allowed", f"{len(facts.cpus)} ({cpu_set.format_list(facts.cpus)})")
    table.add_row("cores", f"{facts.cores}, {facts.cores / facts.ranks:.3g} for each rank")
    if facts.shm_free_mib is not None:
        table.add_row("/dev/shm free", f"{facts.shm_free_mib:,} MiB")
    if facts.settings is not None and facts.settings.plans:
        table.add_row("messages between nodes", _messages(facts))
    return table


def _messages(facts: Facts) -> str:
    """How planned tensors get to other nodes, and the memory that it takes."""
    parts = {part for framework in facts.frameworks for part, built in framework.parts.items()
             if built}
    if "MPI" not in parts:
        way = "TCP, as Horovod was built without MPI"
    elif facts.settings.tcp_messages:
        way = "MPI or TCP, whichever is faster in a trial of hvd.init()"
    else:
        way = "MPI, as HOROVOD_OPT_TCP_MESSAGES is 0" + "; TCP with --gloo" * ("Gloo" in parts)
    return (f"{way}; memory of a rank: up to {facts.settings.message_memory_mb} MiB, and 1 MiB for "
            "each bucket on its way")


def _settings(facts: Facts) -> Table:
    table = _table("Settings in effect", "", "value")
    if facts.settings is None:
        table.add_row("HOROVOD_OPT_*", "[red]not valid[/]")
        return table
    for row in settings.TABLE:
        table.add_row(row.name, f"{getattr(facts.settings, row.field)} {row.unit}".strip())
    return table
