"""One rank of a trial: runs its rounds and compares every result with the model's.

Arguments: the folder to report to, the seed, and after how many seconds to say where it hangs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import sys
import traceback
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

import model
import numpy as np
from common import FOLDER, RANK, report, start_mpi
from programs import Calls, Function, Training, Uneven, kinds_of, process_sets
from soak_checks import Checked
from soak_leaves import Leaves
from soak_trouble import Trouble
from trials import REFUSED, Round, trial

import horovod_opt

ERROR_CHARACTERS = 700  # TensorFlow puts the stack before the message


class Runner:
    """The phases of one round."""

    def __init__(self, framework, name: str, sets: dict, trouble: Trouble, checked: Checked,
                 flushes: bool):
        self._framework, self._name, self._sets = framework, name, sets
        self._trouble, self._checked, self._flushes = trouble, checked, flushes
        self._size = framework.hvd.size()
        self._leaves = Leaves(framework, trouble, checked)

    def run(self, number: int, phase) -> None:
        name = f"{self._name}.{number}"
        print(f"rank {RANK}: {name}", flush=True)
        run = {Calls: self._calls, Uneven: self._uneven, Training: self._training}[type(phase)]
        run(number, name, phase)

    def _calls(self, number: int, name: str, phase: Calls) -> None:
        functions = [self._compile(function, f"{name}.{place}")
                     for place, function in enumerate(phase.functions)]
        everybody = range(self._size)
        leaves = {leave.turn: leave for leave in phase.leaves}

        def run(thread: int) -> None:
            for turn, place in enumerate(phase.threads[thread]):
                function = phase.functions[place]
                tensors = self._tensors(function, f"{name}.{place}")

                def call(turn=turn, place=place) -> list[np.ndarray]:
                    with self._flushing():
                        return functions[place](
                            model.number(RANK, turn), model.takes_branches(turn), turn)

                self._begin(number, thread)
                if leave := leaves.get(turn):
                    if self._leaves.call(f"{name}, turn {turn}", leave, function, tensors, call):
                        self._end(thread)
                        continue
                planned = self._planned(function, tensors, turn)
                arrays = call()
                self._leaves.is_done(tensors)
                self._end(thread)
                expected = self._expected(function, turn, everybody)
                self._compare(f"{name}.{place}, turn {turn}", arrays, expected, function, planned)

        with ThreadPoolExecutor() as pool:
            for thread in [pool.submit(run, thread) for thread in range(len(phase.threads))]:
                thread.result()

    def _uneven(self, number: int, name: str, phase: Uneven) -> None:
        function = self._compile(phase.function, name)
        for turn, present in self._until_joined(phase.calls_of_rank, phase.after):
            self._begin(number)
            arrays = function(model.number(RANK, turn), model.takes_branches(turn), turn)
            self._end()
            expected = self._expected(phase.function, turn, present)
            self._checked.compare(f"{name}, turn {turn}", arrays, expected)

    def _training(self, number: int, name: str, phase: Training) -> None:
        trainer = self._framework.trainer(phase, name, self._sets, self._trouble)
        weights = model.Weights(phase, self._size)
        leaves = {leave.turn: leave for leave in phase.leaves}
        for step, present in self._until_joined(phase.steps_of_rank, phase.after, weights, trainer):
            self._begin(number)
            if leave := leaves.get(step):
                if self._leaves.step(f"{name}, step {step}", leave, step, phase, trainer):
                    self._end()
                    self._checked.compare(f"{name}, left step {step}", trainer.weights(),
                                          weights.of_rank[RANK])
                    continue
            planned = self._checked.active(trainer.tensors) if phase.bits else []
            with self._flushing():
                arrays = trainer.step(step)
            self._leaves.is_done(trainer.tensors)
            self._end()
            if phase.bits:
                expected = model.gradients(phase, self._size, step)
                self._count("special", len(arrays))
            else:
                weights.step(step, present)
                expected = list(weights.of_rank[RANK])
            self._count("layouts", sum(map(bool, phase.layouts)))
            if phase.beside is not None:
                expected += self._expected(phase.beside, step, present)
            self._checked.compare(f"{name}, step {step}", arrays, expected,
                                  [place for place, is_so in enumerate(planned) if is_so])

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

    def _compare(self, where: str, arrays: list, expected: list, function: Function,
                 planned: Collection[int] = ()) -> None:
        self._checked.compare(where, arrays, expected, planned)
        for about in function.collectives:
            for kind in kinds_of(about):
                self._count(kind)

    def _count(self, kind: str, times: int = 1) -> None:
        self._checked.kinds[kind] += times

    def _tensors(self, function: Function, name: str) -> list[str]:
        return [self._framework.tensor_name(about, f"{name}.{place}")
                for place, about in enumerate(function.collectives)]

    def _planned(self, function: Function, tensors: list[str], turn: int) -> list[int]:
        """Places whose bits are those of planned reductions in this turn."""
        if not any(about.bits for about in function.collectives):
            return []
        return [place for place, (is_active, about) in enumerate(zip(
            self._checked.active(tensors), function.collectives))
            if is_active and about.bits and about.kind == "allreduce"
            and (not about.among or RANK in about.among)
            and (not about.sometimes or model.takes_branches(turn))]

    @contextlib.contextmanager
    def _flushing(self) -> Iterator[None]:
        """NumPy's results need this thread's denormals, and PyTorch's should not."""
        self._framework.flush_denormals(self._flushes)
        try:
            yield
        finally:
            self._framework.flush_denormals(False)

    def _compile(self, function, name: str):
        return self._framework.compile_function(function, name, self._sets, self._trouble)

    def _expected(self, function, turn: int, present) -> list[np.ndarray]:
        numbers = [model.number(rank, turn) for rank in range(self._size)]
        return model.results(function, numbers, model.takes_branches(turn), present)[RANK]

    def _begin(self, number: int, thread: int = 0) -> None:
        if thread == 0:
            self._trouble.begins(number)

    def _end(self, thread: int = 0) -> None:
        if thread == 0:
            self._trouble.ends()


def perform(framework, number: int, round_: Round, ranks: int) -> dict:
    """A round; what it gave, and the error that ended it."""
    hvd, error, refused, planned = framework.hvd, "", "", 0
    checked = Checked(ranks > 1 and round_.settings.get("HOROVOD_OPT_SHARED_MEMORY") != "0")
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
        runner = Runner(framework, f"r{number}", sets, trouble, checked, RANK == round_.flushes)
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
            "refused": refused, "planned": planned, "kinds": checked.kinds,
            "digests": checked.digests}


def main() -> None:
    seed, groups, seconds = map(int, sys.argv[2:5])
    faulthandler.dump_traceback_later(
        seconds, file=(FOLDER / f"stack-{RANK}.txt").open("w"))
    soak_trial = trial(seed, bool(groups), sys.argv[5].split(","))
    framework = importlib.import_module(f"soak_{soak_trial.framework}")
    start_mpi(framework.LIBRARY)
    rounds = []
    for number, round_ in enumerate(soak_trial.rounds):
        print(f"rank {RANK}: round {number}, {round_.mode} {round_.settings}", flush=True)
        rounds.append(perform(framework, number, round_, soak_trial.ranks))
        report(rounds=rounds)


main()
