"""`horovod-opt doctor`: what is wrong with the facts it found."""

from __future__ import annotations

import dataclasses

from horovod_opt import guard
from horovod_opt.doctor.inspection import Facts, Framework, mpi_name
from horovod_opt.launcher import built
from horovod_opt.native import header

# Open MPI 5 maps that much of /dev/shm for each rank (btl_sm_segment_size).
SHM_MIB_PER_RANK = 16
PLANNED_FRAMEWORKS = ("tensorflow", "torch")
REINSTALL = "pip install --force-reinstall horovod-opt"


@dataclasses.dataclass(frozen=True)
class Finding:
    """`problem`: something will fail or not act; otherwise worth knowing."""

    problem: bool
    text: str


def examine(facts: Facts) -> list[Finding]:
    """What is wrong with `facts`, the worst first, and what is worth knowing."""
    problems = [
        *_settings_problems(facts),
        *_horovod_problems(facts),
        *_framework_problems(facts),
        *_mpi_problems(facts),
        *_mode_problems(facts),
    ]
    return [Finding(True, text) for text in problems] + [
        Finding(False, text) for text in _notes(facts)
    ]


def _settings_problems(facts: Facts) -> list[str]:
    return facts.settings_error.splitlines()


def _horovod_problems(facts: Facts) -> list[str]:
    if not facts.horovod and facts.built_without_horovod:
        return []
    if not facts.horovod:
        return [f"No horovod can be imported. Remedy: {REINSTALL}."]
    if guard.MARK not in facts.horovod:
        return [
            (
                f"The horovod that Python finds is not ours but version {facts.horovod}, "
                f"{facts.horovod_path}; it knows no modes. Remedy: pip uninstall horovod, then "
                f"{REINSTALL}; if it is another copy, take its folder off PYTHONPATH."
            )
        ]
    if facts.upstream_installed:
        return [
            (
                "The distributions horovod and horovod-opt are both installed and own the same "
                f"files. Remedy: pip uninstall horovod, then {REINSTALL}."
            )
        ]
    return []


def _built_frameworks(facts: Facts) -> list[Framework]:
    return [framework for framework in facts.frameworks if framework.library]


def _framework_problems(facts: Facts) -> list[str]:
    problems = []
    if guard.MARK in facts.horovod and not _built_frameworks(facts):
        names = ", ".join(framework.name for framework in facts.frameworks) or "none installed"
        problems.append(
            f"Horovod was built for no framework ({names}). Remedy: install one, then {REINSTALL}."
        )
    for framework in _built_frameworks(facts):
        versions = f"{framework.name} {framework.installed or '(not installed)'}"
        against = framework.built_against
        if framework.error:
            problems.append(
                f"Horovod's library for {versions} does not load: {framework.error} (built "
                f"against {against or 'an unknown version'}). Remedy: {REINSTALL}, or unset "
                "whatever makes the import fail."
            )
        elif against and against != framework.installed:
            problems.append(
                f"Horovod was built against {framework.name} {against}, but {framework.installed} "
                f"is installed. Remedy: {REINSTALL}."
            )
        if not framework.error and guard.MARK in facts.horovod and framework.abi != header.HASH:
            problems.append(
                f"{framework.library} has the native interface {framework.abi or 'of upstream'}, "
                f"Python's is {header.HASH}. Remedy: {REINSTALL}."
            )
    return problems


def _mpi_problems(facts: Facts) -> list[str]:
    with_mpi = [framework for framework in _built_frameworks(facts) if framework.parts.get("MPI")]
    if with_mpi and not facts.mpirun:
        return [
            (
                "mpirun is neither on PATH nor in this Python's environment, but Horovod was built "
                "with MPI. Remedy: put the MPI that it was built with on PATH (for the wheel: "
                "pip install 'horovod-opt[mpi]'), or use horovodrun --gloo."
            )
        ]
    problems = []
    for framework in with_mpi:
        library = mpi_name(framework.mpi_version)
        if library and library.split()[0] != facts.mpirun_version.split(" ")[0]:
            problems.append(
                f"Horovod for {framework.name} uses {library} ({framework.libmpi}), but "
                f"{facts.mpirun} is {facts.mpirun_version or 'of an unknown MPI'}: each rank would "
                f"be a job of its own. Remedy: put the mpirun of {library} first on PATH."
            )
    if with_mpi and facts.shm_free_mib is not None:
        minimum = SHM_MIB_PER_RANK * facts.ranks
        if facts.shm_free_mib < minimum:
            problems.append(
                f"/dev/shm has {facts.shm_free_mib} MiB free; {facts.ranks} ranks need up to "
                f"{minimum} MiB ({SHM_MIB_PER_RANK} each). Remedy: enlarge it "
                "(docker run --shm-size) or use fewer ranks."
            )
    return problems


def _modes(facts: Facts) -> list[str]:
    return facts.settings.mode.split("+") if facts.settings else []


def _mode_problems(facts: Facts) -> list[str]:
    problems = []
    if "scp" in _modes(facts):
        if facts.cores < 2 * facts.ranks:
            problems.append(
                f"HOROVOD_OPT_MODE={facts.settings.mode}: scp needs two cores for each rank, "
                f"{2 * facts.ranks} for {facts.ranks} on this node; this process may use "
                f"{facts.cores}. Remedy: at most {facts.cores // 2} ranks, more cores, or a mode "
                "without scp."
            )
        share = facts.cores // facts.ranks
        if not -share <= facts.settings.scp_core < share:
            problems.append(
                f"HOROVOD_OPT_SCP_CORE={facts.settings.scp_core} is not a core of a rank that has "
                f"{share}. Valid: {-share} to {share - 1}."
            )
    if "nbcs" in _modes(facts):
        problems += [
            f"HOROVOD_OPT_MODE={facts.settings.mode}: nbcs changes nothing for {framework.name}, "
            "which was built without MPI. Remedy: install an MPI (pip install 'horovod-opt[mpi]'), "
            f"then HOROVOD_WITH_MPI=1 {REINSTALL}."
            for framework in _built_frameworks(facts)
            if framework.parts and not framework.parts["MPI"]
        ]
    return problems


def _plans(facts: Facts) -> bool:
    return facts.settings is not None and facts.settings.plans


def _notes(facts: Facts) -> list[str]:
    notes = [f"{name} has no effect in mode {facts.settings.mode}." for name in facts.ineffective]
    notes += [
        f"{framework.name} {framework.installed} is installed, but Horovod was not built for it. "
        f"If it should be: {REINSTALL}."
        for framework in facts.frameworks
        if not framework.library
    ]
    if facts.built_without_horovod and not facts.horovod:
        notes.append(f"Built without Horovod ({built.WITHOUT_HOROVOD}=1): the input side, "
                     f"graph_analysis and the tools work. For the rest: {built.REMEDY}.")
    if _plans(facts):
        notes += _planning_notes(facts)
    if facts.ranks > facts.cores:
        remark = (
            f" Open MPI's own mpirun offers {facts.cores} slots and needs --oversubscribe; "
            "horovodrun asks for enough."
            if facts.mpirun_version.startswith("Open MPI")
            else ""
        )
        notes.append(f"{facts.ranks} ranks share {facts.cores} cores.{remark}")
    return notes


def _planning_notes(facts: Facts) -> list[str]:
    notes = [
        f"HOROVOD_OPT_MODE={facts.settings.mode}: the tensors of {framework.name} are negotiated; "
        "only those of TensorFlow and PyTorch are planned."
        for framework in _built_frameworks(facts)
        if framework.name not in PLANNED_FRAMEWORKS
    ]
    if facts.ranks > 1 and facts.memfd_error:
        notes.append(
            f"HOROVOD_OPT_MODE={facts.settings.mode}: {facts.ranks} ranks can share no memory here "
            f"(memfd_create: {facts.memfd_error}): planned tensors are reduced as if each rank had "
            "a node of its own. Remedy: Linux 3.17 or newer, and in a container a seccomp profile "
            "that allows memfd_create."
        )
    return notes
