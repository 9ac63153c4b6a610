"""One rank of a trial: runs its rounds and compares every result with the model's.

Arguments: the folder to report to, the seed, and after how many seconds to say where it hangs.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import model
import numpy as np
from common import FOLDER, RANK, report, start_mpi
from programs import Calls, Training, Uneven, process_sets
from soak_trouble import Trouble
from trials import REFUSED, Round, trial

import horovod_opt

DIFFERENCES = 5  # more of them say no more
ERROR_CHARACTERS = 700  # TensorFlow puts the stack before the message


class Checked:
    """What a round has given so far."""

    def __init__(self) -> None:
        self.results, self.different = 0, []

    def compare(self, where: str, actual: list[np.ndarray], expected: list[np.ndarray]) -> None:
        assert len(actual) == len(expected), where
        for place, (array, reference) in enumerate(zip(actual, expected)):
            self.results += 1
            if ((array.dtype, array.shape) != (reference.dtype, reference.shape)
                    or array.tobytes() != reference.tobytes()):
                if len(self.different) < DIFFERENCES:
                    self.different.append(
                        f"{where}, {place}: {array.dtype}{list(array.shape)} {array.ravel()[:6]}, "
                        f"expected {reference.dtype}{list(reference.shape)} "
                        f"{reference.ravel()[:6]}")


class Runner:
    """The phases of one round."""

    def __init__(self, framework, name: str, sets: dict, trouble: Trouble, checked: Checked):
        self._framework, self._name, self._sets = framework, name, sets
        self._trouble, self._checked = trouble, checked
        self._size = framework.hvd.size()

    def run(self, number: int, phase) -> None:
        name = f"{self._name}.{number}"
        print(f"rank {RANK}: {name}", flush=True)
        run = {Calls: self._calls, Uneven: self._uneven, Training: self._training}[type(phase)]
        run(number, name, phase)

    def _calls(self, number: int, name: str, phase: Calls) -> None:
        functions = [self._compile(function, f"{name}.{place}")
                     for place, function in enumerate(phase.functions)]
        everybody = range(self._size)

        def run(thread: int) -> None:
            for turn, place in enumerate(phase.threads[thread]):
                self._begin(number, thread)
                arrays = functions[place](model.number(RANK, turn), turn % 2 == 0, turn)
                self._end(thread)
                expected = self._expected(phase.functions[place], turn, everybody)
                self._checked.compare(f"{name}.{place}, turn {turn}", arrays, expected)

        with ThreadPoolExecutor() as pool:
            for thread in [pool.submit(run, thread) for thread in range(len(phase.threads))]:
                thread.result()

    def _uneven(self, number: int, name: str, phase: Uneven) -> None:
        function = self._compile(phase.function, name)
        for turn, present in self._until_joined(phase.calls_of_rank, phase.after):
            self._begin(number)
            arrays = function(model.number(RANK, turn), turn % 2 == 0, turn)
            self._end()
            expected = self._expected(phase.function, turn, present)
            self._checked.compare(f"{name}, turn {turn}", arrays, expected)

    def _training(self, number: int, name: str, phase: Training) -> None:
        trainer = self._framework.Trainer(phase, name, self._sets, self._trouble)
        weights = model.Weights(phase, self._size)
        for step, present in self._until_joined(phase.steps_of_rank, phase.after, weights, trainer):
            self._begin(number)
            arrays = trainer.step(step)
            self._end()
            weights.step(step, present)
            expected = list(weights.of_rank[RANK])
            if phase.beside is not None:
                expected += self._expected(phase.beside, step, present)
            self._checked.compare(f"{name}, step {step}", arrays, expected)

    def _until_joined(self, times: tuple[int, ...], after: int, weights=None, trainer=None
                      ) -> Iterator[tuple[int, list[int]]]:
        """Turns of this rank with those who take part; they end with a join, if they are not
        equally many, and go on with all."""
        for turn in range(times[RANK]):
            yield turn, [rank for rank in range(self._size) if times[rank] > turn]
        if trainer is None or len(set(times)) > 1:
            last = self._framework.hvd.join()
            slowest = [rank for rank in range(self._size) if times[rank] == max(times)]
            if len(slowest) == 1:
                self._checked.compare(f"{self._name}, join", [np.asarray(int(last))],
                                      [np.asarray(slowest[0])])
        if trainer is not None and len(set(times)) > 1:
            # What this rank has missed, so that the model can give what rank 0 has.
            for turn in range(times[RANK], times[0]):
                weights.step(turn, [rank for rank in range(self._size) if times[rank] > turn])
            weights.broadcast()
            trainer.broadcast()
        for turn in range(max(times), max(times) + after):
            yield turn, list(range(self._size))

    def _compile(self, function, name: str):
        return self._framework.compile_function(function, name, self._sets, self._trouble)

    def _expected(self, function, turn: int, present) -> list[np.ndarray]:
        numbers = [model.number(rank, turn) for rank in range(self._size)]
        return model.results(function, numbers, turn % 2 == 0, present)[RANK]

    def _begin(self, number: int, thread: int = 0) -> None:
        if thread == 0:
            self._trouble.begins(number)

    def _end(self, thread: int = 0) -> None:
        if thread == 0:
            self._trouble.ends()


def perform(framework, number: int, round_: Round, ranks: int) -> dict:
    """A round; what it gave, and the error that ended it."""
    hvd, checked, error, refused, planned = framework.hvd, Checked(), "", "", 0
    mine = round_.fault if round_.fault and round_.fault.rank == RANK else None
    mode = round_.mode
    if mine and mine.kind in REFUSED:
        mode = "off" if mode != "off" else "gs"
    environment = {**round_.settings, "HOROVOD_OPT_MODE": mode}
    os.environ.update(environment)
    sets = {ranks: hvd.ProcessSet(list(ranks)) for ranks in process_sets(ranks)}
    try:
        hvd.init(process_sets=list(sets.values()))
        sets[()] = hvd.global_process_set
        framework.begin()
        trouble = Trouble(mine, RANK == round_.late, hvd.shutdown)
        runner = Runner(framework, f"r{number}", sets, trouble, checked)
        for place, phase in enumerate(round_.phases):
            runner.run(place, phase)
        framework.met()
        planned = horovod_opt.stats().planned_iterations
    except horovod_opt.SettingsError as problem:
        refused = str(problem)
    except Exception as problem:
        traceback.print_exc()
        error = f"{type(problem).__name__}: {str(problem)[-ERROR_CHARACTERS:]}"
    finally:
        hvd.shutdown()
        for name in environment:
            del os.environ[name]
    return {"checked": checked.results, "different": checked.different, "error": error,
            "refused": refused, "planned": planned}


def main() -> None:
    seed, groups, seconds = map(int, sys.argv[2:])
    faulthandler.dump_traceback_later(
        seconds, file=(FOLDER / f"stack-{RANK}.txt").open("w"))
    soak_trial = trial(seed, bool(groups))
    framework = importlib.import_module(f"soak_{soak_trial.framework}")
    start_mpi(framework.LIBRARY)
    rounds = []
    for number, round_ in enumerate(soak_trial.rounds):
        print(f"rank {RANK}: round {number}, {round_.mode} {round_.settings}", flush=True)
        rounds.append(perform(framework, number, round_, soak_trial.ranks))
        report(rounds=rounds)


main()
