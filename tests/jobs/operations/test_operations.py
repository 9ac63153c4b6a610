"""Every operation, dtype and reduction: the right result, and in each mode the same bits.

One job per framework, controller and number of ranks runs all modes one after the other.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from assertions import assert_special_values
from jobs import Job
from workers.shared import cases, edge_calls, special_values

MPI_MODES = ("off", "gs", "nbcs", "gs+nbcs", "topo")
GLOO_MODES = ("off", "gs", "nbcs", "topo")
UNCACHED = ("gs,uncached", "nbcs,uncached", "topo,uncached")

# framework, controller, ranks -> what runs in the job; the first is the reference
JOBS = {
    ("torch", "mpi", 1): MPI_MODES,
    ("torch", "mpi", 2): (*MPI_MODES, *UNCACHED),
    ("torch", "mpi", 3): MPI_MODES,
    ("torch", "mpi", 4): MPI_MODES,
    ("torch", "gloo", 2): GLOO_MODES,
    ("torch", "gloo", 3): GLOO_MODES,
    ("tensorflow", "mpi", 2): GLOO_MODES,
}


def variants(kind: tuple[str, str, int]) -> list[str]:
    if kind[0] == "torch":
        return list(JOBS[kind])
    return [f"{mode}.{how}" for mode in JOBS[kind] for how in ("eager", "graph")]


def name_of(kind: tuple[str, str, int]) -> str:
    return "-".join(map(str, kind))


EACH = [
    pytest.param(kind, variant, id=f"{name_of(kind)}-{variant}")
    for kind in JOBS
    for variant in variants(kind)
]


@pytest.fixture
def job_of(shared_job):
    def job_of(kind: tuple[str, str, int]) -> Job:
        framework, controller, ranks = kind
        return shared_job(f"{framework}_operations", *JOBS[kind], framework=framework,
                          controller=controller, ranks=ranks)

    return job_of


@pytest.fixture
def results(job_of):
    """Per rank, what a variant got, by name; of a job that failed, what it got before."""

    def results(kind: tuple[str, str, int], variant: str) -> list[dict[str, np.ndarray]]:
        job = job_of(kind)
        loaded = []
        for rank in range(kind[2]):
            path = job.folder / f"{variant}.{rank}.npz"
            assert path.exists(), f"rank {rank} did not get there:\n{job.output[-3000:]}"
            with np.load(path) as file:
                loaded.append(dict(file))
        return loaded

    return results


def of(operation: str, named: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in named.items() if name.split("/")[0] == operation}


@pytest.mark.parametrize(
    "kind, variant, operation",
    [
        pytest.param(*row.values, operation, id=f"{row.id}-{operation}")
        for row in EACH
        for operation in cases.operations(*row.values[0])
    ],
)
def test_result(results, kind, variant, operation):
    framework, controller, size = kind
    for rank, arrays in enumerate(results(kind, variant)):
        right = of(operation, cases.expected(framework, controller, rank, size))
        mine = of(operation, arrays)
        assert mine.keys() == right.keys()
        for name, array in right.items():
            assert mine[name].dtype == array.dtype, f"{name} on rank {rank}"
            np.testing.assert_array_equal(mine[name], array, f"{name} on rank {rank}")


@pytest.mark.parametrize("kind, variant", EACH)
def test_same_bits_as_off(results, kind, variant):
    reference = results(kind, variants(kind)[0])
    for rank, arrays in enumerate(results(kind, variant)):
        random = set() if kind[2] <= 2 else set(cases.RANDOM.values())
        same = reference[rank].keys() - random
        different = [
            name for name in same if arrays[name].tobytes() != reference[rank][name].tobytes()
        ]
        assert not different, f"rank {rank}"


@pytest.mark.parametrize("kind", [kind for kind in JOBS if kind[2] > 1], ids=name_of)
def test_random_sum_is_the_same_on_all_ranks(results, kind):
    for variant in variants(kind):
        for name in cases.RANDOM.values():
            sums = {arrays[name].tobytes() for arrays in results(kind, variant)}
            assert len(sums) == 1, (variant, name)


@pytest.mark.parametrize("kind", [kind for kind in JOBS if kind[2] == 2], ids=name_of)
def test_a_sum_of_two_in_bfloat16_is_rounded_once(results, kind):
    sent = [cases.bfloat16_bits(cases.random(rank)).astype(np.uint32) << 16 for rank in range(2)]
    first, second = (bits.view(np.float32) for bits in sent)
    rounded = cases.bfloat16_bits(first + second)
    assert (rounded.astype(np.uint32) << 16 != (first + second).view(np.uint32)).any()
    for variant in variants(kind):
        for arrays in results(kind, variant):
            np.testing.assert_array_equal(arrays[cases.RANDOM["bfloat16"]], rounded, variant)


OF_ARGUMENT = {"torch": "ValueError", "tensorflow": "InvalidArgumentError"}
OF_HOROVOD = {"torch": "HorovodInternalError", "tensorflow": "FailedPreconditionError"}


def edge_reports(job_of, kind: tuple[str, str, int]) -> list[tuple[str, list[dict]]]:
    """By mode, what the ranks have reported of calls at the edge."""
    reports = job_of(kind).of_ranks(kind[2])
    assert [set(report) for report in reports] == [set(edge_calls.MODES)] * kind[2]
    return [(mode, [report[mode] for report in reports]) for mode in edge_calls.MODES]


@pytest.mark.parametrize("kind", JOBS, ids=name_of)
def test_what_cannot_be_done_is_refused_on_all_ranks(job_of, kind):
    """Sums of types that are only moved, ranks of other types, scalars, splits that do not fit."""
    framework, _, ranks = kind
    for mode, reports in edge_reports(job_of, kind):
        for name, call in edge_calls.calls(ranks).items():
            texts = set()
            for rank, report in enumerate(reports):
                error, text = report["errors"][name]
                at_fault = call.unfit and rank == ranks - 1
                assert error == (OF_ARGUMENT if at_fault else OF_HOROVOD)[framework], (mode, name)
                assert [part for part in call.texts(ranks) if part not in text] == [], text
                shown = re.search(rf"{re.escape(call.error)}.* Tensor '[^']+': .*\.", text)
                # TensorFlow's grouped operations have no name.
                nameless = framework == "tensorflow" and call.operation.startswith("grouped")
                assert shown and (nameless or name in text), text
                texts.add(shown[0])
            assert len(texts) == 1, (mode, texts)


@pytest.mark.parametrize("kind", JOBS, ids=name_of)
def test_the_job_goes_on_after_it(job_of, kind):
    for mode, reports in edge_reports(job_of, kind):
        assert {report["sum"] for report in reports} == {sum(range(1, kind[2] + 1))}, mode


@pytest.mark.parametrize("kind", JOBS, ids=name_of)
def test_no_rows_no_elements_and_scalars(job_of, kind):
    for mode, reports in edge_reports(job_of, kind):
        assert [report["edges"] for report in reports] == [[]] * kind[2], mode


@pytest.mark.parametrize("kind", JOBS, ids=name_of)
def test_objects_whatever_their_classes(job_of, kind):
    for mode, reports in edge_reports(job_of, kind):
        assert [report["objects"] for report in reports] == [[]] * kind[2], mode


@pytest.mark.parametrize("kind", [kind for kind in JOBS if kind[0] == "tensorflow"], ids=name_of)
def test_gradients_have_the_structure_of_their_sources(job_of, kind):
    for mode, reports in edge_reports(job_of, kind):
        assert [report["gradients"] for report in reports] == [[]] * kind[2], mode


@pytest.mark.parametrize("kind", [kind for kind in JOBS if kind[0] == "tensorflow"], ids=name_of)
def test_a_session_of_tensorflow_1_begins_with_the_variables_of_rank_0(job_of, kind):
    for mode, reports in edge_reports(job_of, kind):
        assert [report["session"] for report in reports] == [[1.0, 1.0]] * kind[2], mode
        for report in reports:
            assert report["session objects"] == [{"turn": 0}, {"turn": 1}, "text", [None, "text"]]


@pytest.mark.parametrize("kind", [kind for kind in JOBS if kind[0] == "tensorflow"], ids=name_of)
def test_variables_of_every_type(job_of, kind):
    for mode, reports in edge_reports(job_of, kind):
        assert [report["variables"] for report in reports] == [[]] * kind[2], mode


@pytest.mark.parametrize("name", special_values.NAMES)
@pytest.mark.parametrize("kind", [kind for kind in JOBS if kind[0] == "tensorflow"], ids=name_of)
def test_special_values_whatever_threads_make_of_denormals(job_of, kind, name):
    for mode, reports in edge_reports(job_of, kind):
        for report in reports:
            assert report["specials"]["states"] == (["active"] if mode == "topo" else [])
        bits = [np.frombuffer(bytes.fromhex(report["specials"]["bits"][name]),
                              special_values.word(name.split()[-1])) for report in reports]
        assert_special_values(name, bits, planned=mode == "topo")


@pytest.mark.parametrize("kind", JOBS, ids=name_of)
def test_job_ends_well(job_of, kind):
    job_of(kind).expect_success()


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_ten_thousand_tiny_allreduces(job, controller):
    result = job("torch_collectives", "many", *GLOO_MODES, controller=controller).expect_success()
    assert result.reports() == {rank: dict.fromkeys(GLOO_MODES, 0) for rank in range(2)}


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_gathering_is_refused_and_the_job_goes_on(job, controller):
    first, *others = job("torch_collectives", "join", ranks=4,
                         controller=controller).expect_success().of_ranks(4)
    assert first == {"errors": {}, "total": 10.0}
    for report in others:
        [(error, times)] = report["errors"].items()
        assert "Allgather is not supported with Join" in error
        assert (times, report["total"]) == (200, 10.0)
