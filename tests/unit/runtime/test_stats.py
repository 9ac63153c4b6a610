"""The counter table, its docs, and the table printed at shutdown."""

from __future__ import annotations

import dataclasses
import io

import pytest

import horovod_opt
from horovod_opt import stats_table
from horovod_opt.counters import TABLE


def table_text(ranks) -> str:
    out = io.StringIO()
    stats_table.show(ranks, out)
    return out.getvalue()


def cells(text: str, label: str) -> list[str]:
    """The cells of the first line with that label."""
    for line in text.splitlines():
        parts = [part.strip() for part in line.strip("│┃").replace("┃", "│").split("│")]
        if parts[0] == label:
            return parts[1:]
    raise AssertionError(f"no line {label!r} in\n{text}")


def test_docs_name_every_counter():
    for row in TABLE:
        assert f"{row.field} " in horovod_opt.Stats.__doc__
        assert row.help in horovod_opt.stats.__doc__


def test_names_carry_their_units():
    for row in TABLE:
        assert (row.kind == "d") == row.field.endswith("_seconds")


def test_stats_are_frozen(make_stats):
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_stats().cycles = 0


def test_unknown_names_of_the_package():
    with pytest.raises(AttributeError, match="no attribute 'stat'"):
        horovod_opt.stat  # noqa: B018


def test_sums(make_stats):
    stats = make_stats(background_user_seconds=1.5, background_system_seconds=0.25)
    assert stats.background_seconds == 1.75


def test_one_column_per_rank(make_stats):
    text = table_text(
        [
            make_stats(
                rank=rank,
                elapsed_seconds=50.0,
                background_user_seconds=2.0 * rank,
                background_system_seconds=0.5,
                data_bytes=3 << 20,
                process_user_seconds=60.0,
                process_system_seconds=15.0,
                cycles=12_345,
            )
            for rank in range(2)
        ]
    )
    assert cells(text, "") == ["unit", "rank 0", "rank 1"]
    assert cells(text, "CPU") == ["s", "0.500", "2.500"]
    assert cells(text, "CPU, part of one core") == ["%", "1.0", "5.0"]
    assert cells(text, "data moved") == ["MiB", "3.0", "3.0"]
    assert cells(text, "cycles") == ["", "12,345", "12,345"]
    assert cells(text, "CPU, in cores") == ["", "1.50", "1.50"]
    assert "mode nbcs, 2 ranks, mpi controller, 50.000 s since hvd.init()" in text


def test_the_caption_says_how_messages_travel_between_nodes(make_stats):
    text = table_text([make_stats(rank=rank, mode="topo", messages="tcp") for rank in range(2)])
    assert "mode topo, 2 ranks, mpi controller, tcp between nodes, " in text


@pytest.mark.parametrize("ranks", [1, 4, 5, 6, 16, 17, 2000])
def test_any_number_of_ranks_fits_into_100_columns(make_stats, ranks):
    most = {row.field: 987_654 if row.kind == "d" else 98_765_432_109 for row in TABLE}
    most.update(mode="nbcs", controller="gloo", messages="mpi")
    text = table_text([make_stats(**{**most, "rank": rank}) for rank in range(ranks)])
    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text
    if ranks <= stats_table.MOST_RANK_COLUMNS:
        assert all(f" rank {rank} " in text for rank in range(ranks))


def test_input_is_shown_where_there_is_any(make_stats):
    assert "Input" not in table_text([make_stats(input_samples=0)])
    text = table_text([make_stats(input_samples=12_345, input_bytes=3 << 20,
                                  input_wait_seconds=0.25,
                                  input_samples_from_storage=12_000,
                                  input_node_bytes=4 << 20, input_node_requests=9)])
    assert cells(text, "samples taken") == ["", "12,345"]
    assert cells(text, "their bytes") == ["MiB", "3.0"]
    assert "12,000" in text
    assert cells(text, "training waited for them") == ["s", "0.250"]
    assert cells(text, "read from storage") == ["MiB", "4.0"]
    assert cells(text, "in requests") == ["", "9"]


def test_many_ranks_are_summarised(make_stats):
    waits = [float(rank) for rank in range(17)]
    waits[3] = 99.0
    text = table_text([make_stats(rank=r, wait_seconds=wait) for r, wait in enumerate(waits)])
    assert cells(text, "") == ["unit", "min", "median", "max", "max on rank"]
    assert cells(text, "waiting for other ranks") == ["s", "0.000", "9.000", "99.000", "3"]
    assert cells(text, "cycles")[-1] == "all equal"


def test_polls_are_shown_where_there_are_any(make_stats):
    assert "MPI tests" in table_text([make_stats(mode="gs+nbcs")])
    assert "MPI tests" not in table_text([make_stats(mode="gs")])


def test_a_run_of_no_time_has_no_share(make_stats):
    assert cells(table_text([make_stats(elapsed_seconds=0.0)]), "CPU, part of one core")[1] == "0.0"


def test_what_a_plan_has_done(make_stats):
    text = table_text([make_stats(
        mode="topo+scp", cycles=700, requested_rounds=60, steady_rounds=0, planned_iterations=50,
        planned_buckets=200, planned_wakeups=300, planned_latency_seconds=0.5,
        planned_bytes=3 << 20, data_bytes=4 << 20)])
    assert cells(text, "rounds of negotiation") == ["", "700"]
    assert cells(text, "asked for") == ["", "60"]
    assert cells(text, "in steady state") == ["", "0"]
    assert cells(text, "planned iterations") == ["", "50"]
    assert cells(text, "of the data moved") == ["%", "75.0"]
    assert cells(text, "wake-ups for each") == ["", "1.50"]
    assert cells(text, "last tensor to result") == ["ms", "2.50"]
    assert "cycles" not in text


def test_nothing_about_plans_in_other_modes(make_stats):
    text = table_text([make_stats(mode="gs")])
    assert "plans" not in text and "rounds" not in text


def test_a_job_without_a_bucket_divides_by_nothing(make_stats):
    text = table_text([make_stats(mode="topo", planned_buckets=0, data_bytes=0)])
    assert cells(text, "wake-ups for each") == ["", "0.00"]
    assert cells(text, "of the data moved") == ["%", "0.0"]
