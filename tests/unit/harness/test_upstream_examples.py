"""What tests/by_hand/upstream/examples makes of what a script prints, and when it ends one."""

from __future__ import annotations

import sys

import example_data
import example_job
import examples_command
import numpy as np
import pytest
from environment import Unusable, examine
from events import MINUTE
from example_job import ENDED, FAILED, STOPPED, TrainingRun, of_rank_0, run, why_failed
from example_scripts import EXAMPLES, IMAGES, KERAS, PROGRESS_BAR, SAMPLES, STEPS, Example
from launch import Column


@pytest.mark.parametrize("rate, lines, expected", [
    (IMAGES, [(0, "Iter #1: 3.0 img/sec per CPU"), (1, "Total img/sec on 2 CPU(s): 7.5 +-0.1")],
     7.5),
    (IMAGES, [(0, "Iter #1: 3.0 img/sec per CPU")], None),
    (KERAS, [(0, "250/250 - 9s - 36ms/step - loss: 1"), (1, "250/250 - 5s - 20ms/step - loss: 1")],
     50),
    (KERAS, [(0, "16/16 - 3s - 200ms/step - loss: 1.0")], 5),
    (KERAS, [(0, "7/250 - 9s - 36ms/step - loss: 1.0")], None),
    (PROGRESS_BAR, [(0, "Train Epoch #1:  0% [?it/s]\rTrain Epoch #1: 50% [4.0it/s]\r"),
                    (9, "Train Epoch #2: 99% [ 2.0s/it]\r"),
                    (9, "Validate Epoch #2: 50% [9.0it/s]")], 0.5),
    (PROGRESS_BAR, [(0, "Validate Epoch #2: 50% [9.0it/s]")], None),
    (STEPS, [(9, "Step #0"), (11, "Step #10"), (12, "Step #20"), (13, "Step #30")], 10),
    (STEPS, [(9, "Step #0"), (11, "Step #10")], None),
    # The second epoch begins anew, after a test.
    (SAMPLES, [(0, "Train Epoch: 1 [0/6000 (0%)]"), (1, "Train Epoch: 1 [640/6000 (11%)]"),
               (3, "Train Epoch: 1 [1280/6000 (21%)]"), (9, "Train Epoch: 2 [0/6000 (0%)]")], 320),
])
def test_how_fast_a_script_says_it_is(rate, lines, expected):
    assert rate.of(lines) == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("prefix", ["[1,{}]<stdout>:", "[{}]<stderr>:"])
def test_the_lines_of_rank_0_alone_tell(prefix):
    lines = [(0.0, prefix.format(0) + "Step #1"), (1.0, prefix.format(1) + "Step #2"),
             (2.0, "a line of the launcher")]
    assert of_rank_0(lines) == [(0.0, "Step #1")]


def test_the_last_error_of_any_rank_says_why():
    lines = [(0, "[1,1]<stderr>:ValueError: first"), (1, "[1,1]<stderr>:keras.E.SomeError: then"),
             (2, "RuntimeError: a rank has ended"), (3, "mpirun has ended"), (4, "")]
    assert why_failed(lines) == "keras.E.SomeError: then"
    assert why_failed(lines[2:]) == "RuntimeError: a rank has ended"
    assert why_failed(lines[3:]) == "mpirun has ended"
    assert why_failed([]) == "it printed nothing"


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Runs a script as an example whose rate are its steps, under a launcher of one rank."""
    launcher = tmp_path / "launcher.py"
    launcher.write_text("import subprocess, sys\n"
                        "job = subprocess.Popen(sys.argv[3:], stdout=subprocess.PIPE)\n"
                        "for line in job.stdout:\n"
                        "    sys.stdout.buffer.write(b'[1,0]<stdout>:' + line)\n"
                        "    sys.stdout.buffer.flush()\n"
                        "sys.exit(job.wait())\n")
    monkeypatch.setattr(example_job, "HOROVODRUN", launcher)

    def train(text: str, rate=STEPS, seconds: float = MINUTE, patience: float = 2 * MINUTE
              ) -> TrainingRun:
        monkeypatch.setattr(example_job, "PATIENCE", patience)
        (tmp_path / "script.py").write_text(text)
        return run(Example("script", "script.py", rate), Column("off", sys.executable, "off", 2),
                   tmp_path, tmp_path, tmp_path / "kept", seconds)

    return train


COUNT = """import time
for i in range(4):
    print(f"Step #{i}", flush=True)
    time.sleep(0.05)
"""


def test_a_script_that_ends(train, tmp_path):
    trained = train(COUNT)
    assert trained.status == ENDED and trained.rate > 0
    assert (tmp_path / "kept" / "job.txt").read_text().count("Step #") == 4
    assert train("", rate=None).status == ENDED
    assert train("").why == "it did not say how fast it was"


def test_a_progress_bar_tells(train):
    bar = r"\r1/2 [=>..] - ETA: 1s\r2/2 [====] - ETA: 0s\r2/2 [====] - 1s 250ms/step - loss: 1"
    assert train(f"print('Epoch 1/2\\n{bar}')", rate=KERAS).rate == 4


def test_a_script_that_goes_on_is_ended_once_it_has_told(train):
    assert train(COUNT + "time.sleep(600)", seconds=0).status == STOPPED
    silent = train("import time; time.sleep(600)", seconds=0, patience=1)
    assert (silent.status, silent.why) == (FAILED, "no end after 1 s")


def test_a_script_that_fails(train):
    trained = train(COUNT + "raise ValueError('no such file')")
    # Standard error of this launcher's rank has no prefix.
    assert (trained.status, trained.rate, trained.why) == (
        FAILED, None, "ValueError: no such file")


def test_what_runs_in_off_alone_is_worse():
    runs = {"off": {"a": TrainingRun(ENDED), "b": TrainingRun(FAILED),
                    "c": TrainingRun(STOPPED, 1.0)},
            "topo": {"a": TrainingRun(FAILED), "b": TrainingRun(FAILED),
                     "c": TrainingRun(ENDED, 2.0)}}
    assert examples_command.worse(runs) == ["a [topo]"]


@pytest.fixture
def checkouts(tmp_path):
    """Upstream's and tf_cnn_benchmarks, with all scripts, empty."""
    upstream, benchmarks = tmp_path / "upstream", tmp_path / "benchmarks"
    (upstream / "test" / "parallel").mkdir(parents=True)
    (upstream / "horovod").mkdir()
    (upstream / "horovod" / "__init__.py").write_text("__version__ = '0.28.1'\n")
    for example in EXAMPLES:
        root = benchmarks / examples_command.TF_CNN if example.tf_cnn else upstream / "examples"
        (root / example.script).parent.mkdir(parents=True, exist_ok=True)
        (root / example.script).touch()
    return upstream, benchmarks


def test_which_scripts_are_run(checkouts):
    upstream, benchmarks = checkouts
    options = examples_command.parse_arguments([str(upstream)])
    assert [example for example, _ in examples_command.choose_examples(options)] == [
        example for example in EXAMPLES if not example.tf_cnn]
    options = examples_command.parse_arguments(
        [str(upstream), "--tf-cnn-benchmarks", str(benchmarks)])
    assert [example for example, _ in examples_command.choose_examples(options)] == list(EXAMPLES)
    (upstream / "examples" / "pytorch" / "pytorch_mnist.py").unlink()
    with pytest.raises(Unusable, match=r"there is no .*/pytorch/pytorch_mnist.py"):
        examples_command.choose_examples(options)


def test_a_python_without_what_the_scripts_import_is_refused(tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -S \"$@\"\n")  # no installed packages
    python.chmod(0o755)
    with pytest.raises(Unusable, match=f"no Horovod is installed for {python}"):
        examine(str(python), ["torch"], "", patched=True)
    installed = examine(sys.executable, ["json", "torch"], "", patched=True)
    assert "+opt" in installed["horovod"]
    with pytest.raises(Unusable, match=f"{sys.executable} lacks none_1 none_2: get none_1"):
        examine(sys.executable, ["json", "none_1", "none_2"], "get {missing}", patched=True)


def test_every_example_has_a_name_of_its_own():
    names = [example.name for example in EXAMPLES]
    assert len(set(names)) == len(names) > 30


def test_the_digits_are_as_keras_and_torchvision_have_them(tmp_path):
    (images, labels), (targets, _) = example_data.digits()
    assert images.shape == (6000, 28, 28) and labels.shape == (6000,)
    assert images.dtype == labels.dtype == np.uint8 and images.max() == 255
    assert set(labels) == set(range(10))
    # None that is tested is trained with.
    assert not {image.tobytes() for image in images} & {image.tobytes() for image in targets}
    example_data.write(tmp_path)
    raw = tmp_path / "torch" / "MNIST" / "raw"
    assert np.frombuffer((raw / "train-images-idx3-ubyte").read_bytes(), ">i4", 4).tolist() == [
        2051, 6000, 28, 28]
    assert (raw / "train-images-idx3-ubyte").stat().st_size == 16 + 6000 * 28 * 28
    assert (raw / "t10k-labels-idx1-ubyte").stat().st_size == 8 + 1000
    assert len(list((tmp_path / "photographs" / "train").glob("*/*.jpg"))) == 64
