"""tests/by_hand/repeat/run: each part as often as it is told, and not again."""

from __future__ import annotations

from pathlib import Path

import pytest
import repeat_command


@pytest.fixture
def repeat(tmp_path, monkeypatch):
    """Runs the command over folders of `tests`; returns its status and the parts that ran."""
    for name in ("a/test_a.py", "a/b/test_b.py", "a/b/helper.py", "by_hand/test_c.py", "d/e.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).touch()
    monkeypatch.setattr(repeat_command, "ROOT", tmp_path)
    monkeypatch.setattr(repeat_command, "commit", lambda: "1234")

    def repeat(*arguments: str, codes: dict[str, int] | None = None,
               interrupted: bool = False) -> tuple[int, list[tuple[str, int]]]:
        ran = []

        def run_part(part: Path, seed: int, workers: int, log: Path) -> int:
            if interrupted and len(ran) == 2:
                raise KeyboardInterrupt
            ran.append((part.name, seed))
            return (codes or {}).get(part.name, 0)

        monkeypatch.setattr(repeat_command, "run_part", run_part)
        code = repeat_command.main(["--busy", "0", "--output", str(tmp_path / "output"),
                                    *arguments, str(tmp_path / "tests")])
        return code, ran

    return repeat


def test_each_part_once_a_round(repeat):
    code, ran = repeat("--rounds", "2", "--seed", "5")
    assert code == 0
    assert sorted(ran) == [("a", 5), ("a", 6), ("b", 5), ("b", 6)]


def test_goes_on_where_it_was_interrupted(repeat):
    code, first = repeat("--rounds", "3", interrupted=True)
    assert (code, len(first)) == (130, 2)
    code, rest = repeat("--rounds", "3")
    assert code == 0
    assert sorted(first + rest) == [(name, seed) for name in "ab" for seed in (1, 2, 3)]


def test_another_commit_begins_anew(repeat, monkeypatch):
    repeat("--rounds", "1")
    monkeypatch.setattr(repeat_command, "commit", lambda: "5678")
    assert len(repeat("--rounds", "1")[1]) == 2


def test_says_what_has_failed(repeat, capsys):
    """Also of an earlier start; a part without tests has not failed."""
    code, ran = repeat("--rounds", "1", codes={"a": 1, "b": 5})
    assert (code, len(ran)) == (1, 2)
    assert repeat("--rounds", "1") == (1, [])
    assert "failed: tests/a, seed 1" in capsys.readouterr().out


def test_without_tests_there_is_nothing_to_run(repeat, monkeypatch, tmp_path, capsys):
    assert repeat_command.main([str(tmp_path / "tests" / "d")]) == 2
    assert "no tests in" in capsys.readouterr().err


def test_busy_processes_end(tmp_path):
    import psutil

    before = {*psutil.Process().children()}
    with repeat_command.busy(2):
        started = {*psutil.Process().children()} - before
        assert len(started) == 2
    assert not any(process.is_running() for process in started)
