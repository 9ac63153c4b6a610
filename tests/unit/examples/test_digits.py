"""What the digits examples share: sharding, and the checks that end a run."""

from __future__ import annotations

import sys

import digits
import numpy as np
import pytest


def shares(ranks: int, epoch: int = 0, seed: int = 0) -> list[list[int]]:
    """The labels that each rank trains on: here every image's own number."""
    numbers = np.arange(103)
    images = np.zeros((103, 8, 8), dtype=np.float32)
    return [[int(label)
             for _, labels in digits.batches(images, numbers, 5, epoch, seed, rank, ranks)
             for label in labels] for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_train_on_equally_many_images_and_none_on_anothers(ranks):
    by_rank = shares(ranks)
    assert {len(share) for share in by_rank} == {103 // (5 * ranks) * 5}
    everything = [image for share in by_rank for image in share]
    assert len(everything) == len(set(everything))


def test_order_changes_with_epoch_and_seed_alone():
    assert shares(2) == shares(2)
    assert shares(2) != shares(2, epoch=1)
    assert shares(2) != shares(2, seed=1)


def test_too_large_a_batch_is_refused_by_number():
    with pytest.raises(SystemExit, match="--batch-size 60 on 2 ranks needs 120 images.*only 100"):
        digits.steps_per_epoch(100, 60, 2)


def test_images_move_by_at_most_one_pixel():
    image = np.zeros((200, 8, 8), dtype=np.float32)
    image[:, 3, 4] = 1.0
    [(moved, _)] = digits.batches(image, np.arange(200), 200, 0, 0, 0, 1)
    places = {tuple(place[1:]) for place in np.argwhere(moved)}
    assert places == {(row, column) for row in (2, 3, 4) for column in (3, 4, 5)}


def test_learning_rate_falls_from_its_start():
    rates = [digits.learning_rate(0.5, epoch, 4) for epoch in range(4)]
    assert rates[0] == 0.5 and rates[2] == pytest.approx(0.25)
    assert rates == sorted(rates, reverse=True) and rates[-1] > 0


def digests(*weights: float) -> np.ndarray:
    return np.concatenate([digits.digest([np.ones(3), np.float32([w])]) for w in weights])


def test_one_bit_of_one_weight_changes_the_digest():
    same, different = digests(1.0, 1.0), digests(1.0, np.nextafter(np.float32(1), np.float32(2)))
    assert np.array_equal(same[0], same[1])
    assert not np.array_equal(different[0], different[1])


def test_ranks_with_other_weights_are_named(capsys):
    with pytest.raises(SystemExit) as end:
        digits.finish(0, digests(1.0, 2.0, 1.0, 3.0), 0.99, 100, 1.0)
    assert end.value.code == 1
    assert "weights of rank 1, 3 differ from those of rank 0" in capsys.readouterr().err


def test_every_rank_ends_with_an_error_and_rank_0_alone_says_why(capsys):
    with pytest.raises(SystemExit) as end:
        digits.finish(1, digests(1.0, 1.0), 0.9694, 100, 1.0)
    assert end.value.code == 1 and capsys.readouterr() == ("", "")
    with pytest.raises(SystemExit):
        digits.finish(0, digests(1.0, 1.0), 0.9694, 100, 1.0)
    assert "test accuracy 96.94% is below the target of 97%" in capsys.readouterr().err


def test_result_is_one_line(capsys):
    digits.finish(0, digests(1.0, 1.0), 0.975, 100, 2.0)
    assert capsys.readouterr().out == (
        "ranks: 2  test accuracy: 97.50%  seconds: 2.0  images/s: 50  identical weights: yes\n")


def test_progress_off_a_terminal_is_a_line_an_epoch_of_rank_0(capsys):
    for rank in (0, 1):
        with digits.Progress(rank, epochs=2, steps=1) as progress:
            progress.step()
            progress.epoch(0, loss=0.5, accuracy=0.9)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("epoch  1/2  loss 0.5000  test accuracy 90.00%")


@pytest.mark.parametrize("argv, message", [
    (["--epochs", "0"], "0 is not at least 1"),
    (["--save", "/no/such/directory/weights"], "is not a file in an existing directory"),
])
def test_bad_option(argv, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["example", *argv])
    with pytest.raises(SystemExit):
        digits.parse_arguments("an example", learning_rate=0.1)
    assert message in capsys.readouterr().err
