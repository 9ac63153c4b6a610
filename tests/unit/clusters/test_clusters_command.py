"""tests/by_hand/ecosystem/clusters/run without a cluster: what is tried, and how it is shown."""

from __future__ import annotations

import cluster_trials
import clusters_command
import pytest
import ways
from cluster_trials import Result


def test_all_is_tried_by_default():
    chosen = clusters_command.chosen(clusters_command.parse_arguments([]))
    assert len(chosen) == len(set(chosen))
    assert {way for way, _, _ in chosen} == set(ways.WAYS)
    for way in set(ways.WAYS) - {ways.ELASTIC}:
        tried = {(trial, mode) for name, trial, mode in chosen if name == way}
        assert tried == {(trial, mode)
                         for trial in set(cluster_trials.TRIALS) - {cluster_trials.LOSES_A_NODE}
                         for mode in ("off", "topo")}


def test_an_elastic_job_loses_a_node_and_nothing_else():
    chosen = clusters_command.chosen(clusters_command.parse_arguments(["--modes", "topo"]))
    assert [trial for way, trial, _ in chosen if way == ways.ELASTIC] == ["a node is drained"]


@pytest.mark.parametrize("arguments, problem", [
    (["--ranks", "3"], "--ranks 3 is not an even number"), (["--ranks", "0"], "--ranks 0 is not"),
    (["--ways", "ssh"], "invalid choice: 'ssh'"), (["--keep", "/"], "--keep / is there already"),
])
def test_wrong_arguments(arguments, problem, capsys):
    with pytest.raises(SystemExit) as ended:
        clusters_command.parse_arguments(arguments)
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err


def test_table():
    table = clusters_command.table([("srun", "PyTorch", "off", Result("status 0")),
                                    ("mpirun", "cancelled", "topo", Result("left", "left"))])
    assert [line.split()[-1] for line in table.splitlines()[1:]] == ["passed", "FAILED"]


def test_what_cannot_be_started_is_a_result(monkeypatch, tmp_path):
    def trial(*_, **__):
        raise OSError("sbatch: error: no partition")

    monkeypatch.setitem(clusters_command.TRIALS, "PyTorch", trial)
    result = clusters_command.attempt(None, "srun", "PyTorch", "off", tmp_path / "job")
    assert result.wrong == "sbatch: error: no partition"
