"""Which of upstream's example scripts are run, and how.

Left out: those of MXNet, which has no wheel for today's Python, and those of Ray and Spark, whose
jobs docs/use/ecosystem.md has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rates import Bar, CountRate, LastNumber, PerStep, Rate
from suites import LEGACY_KERAS

IMAGES = LastNumber("images/s", r"Total img/sec on \d+ \w+\(s\): ([\d.]+)")
KERAS = PerStep(r"(\d+)/\1 .*? ([\d.]+)(s|ms|us)/step")
STEPS = CountRate("steps/s", r"Step #(\d+)")
SAMPLES = CountRate("samples/s of a rank", r"Train Epoch: \d+ \[(\d+)/")
LIGHTNING = Bar(r"\bEpoch \d+:")
PROGRESS_BAR = Bar(r"\bTrain Epoch")


@dataclass(frozen=True)
class Example:
    """A script below upstream's `examples/`, or with `tf_cnn` in that of tf_cnn_benchmarks.

    In `arguments` {data} stands for the folder with images and digits, and {work} for one that is
    empty. `preparation`: what main_script.py does before, `keras` or `torchvision`. `elastic`: it
    is started with a script that discovers hosts. `service`: what is started before it, also under
    horovodrun. `needs`: modules beside the framework without which it does not start.
    """

    name: str
    script: str
    rate: Rate | None = None
    arguments: tuple[str, ...] = ()
    preparation: str = ""
    elastic: bool = False
    service: tuple[str, ...] = ()
    tf_cnn: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


def _both_keras(name: str, script: str, rate: Rate | None, **options) -> tuple[Example, Example]:
    """With Keras 3, and with the Keras 2 that it was written for."""
    return (Example(name, script, rate, **options),
            Example(f"{name}, legacy Keras", script, rate, environment=LEGACY_KERAS,
                    needs=("tf_keras",), **options))


_FEW = ("--batch-size", "4", "--num-warmup-batches", "2", "--num-batches-per-iter", "4",
        "--num-iters", "3")
_FEW_KERAS = ("--batch-size", "4", "--num-batches-per-iter", "4", "--num-iters", "3")
_PHOTOGRAPHS = ("--train-dir", "{data}/photographs/train", "--val-dir",
                "{data}/photographs/validation", "--log-dir", "{work}/logs", "--epochs", "2",
                "--batch-size", "4", "--val-batch-size", "4")
_DIGITS = ("--data-dir", "{data}/torch", "--epochs", "1", "--no-cuda")
_TF_CNN = ("--variable_update=horovod", "--batch_size=4", "--num_batches=10",
           "--num_warmup_batches=3", "--device=cpu", "--data_format=NHWC",
           "--num_intra_threads=1")

EXAMPLES = (
    *_both_keras("tensorflow2_synthetic_benchmark",
                 "tensorflow2/tensorflow2_synthetic_benchmark.py", IMAGES, arguments=_FEW),
    *_both_keras("tensorflow2_keras_synthetic_benchmark",
                 "tensorflow2/tensorflow2_keras_synthetic_benchmark.py", IMAGES,
                 arguments=_FEW_KERAS),
    *_both_keras("tensorflow2_mnist", "tensorflow2/tensorflow2_mnist.py", STEPS,
                 preparation="keras"),
    *_both_keras("tensorflow2_keras_mnist", "tensorflow2/tensorflow2_keras_mnist.py", KERAS,
                 preparation="keras"),
    *_both_keras("tensorflow2_mnist_data_service", "tensorflow2/tensorflow2_mnist_data_service.py",
                 KERAS, arguments=("{work}/service.json",), preparation="keras",
                 service=("-m", "horovod.tensorflow.data.compute_worker", "{work}/service.json",
                          "--dispatchers", "2", "--dispatcher-side", "compute")),
    Example("keras_mnist", "keras/keras_mnist.py", KERAS, preparation="keras"),
    Example("keras_mnist_advanced", "keras/keras_mnist_advanced.py", KERAS,
            arguments=("--epochs", "2"), preparation="keras"),
    Example("keras_imagenet_resnet50", "keras/keras_imagenet_resnet50.py", KERAS,
            arguments=(*_PHOTOGRAPHS, "--checkpoint-format", "{work}/checkpoint-{{epoch}}.h5")),
    Example("pytorch_synthetic_benchmark", "pytorch/pytorch_synthetic_benchmark.py", IMAGES,
            arguments=(*_FEW, "--no-cuda"), preparation="torchvision", needs=("torchvision",)),
    Example("pytorch_mnist", "pytorch/pytorch_mnist.py", SAMPLES, arguments=_DIGITS,
            preparation="torchvision", needs=("torchvision",)),
    Example("pytorch_imagenet_resnet50", "pytorch/pytorch_imagenet_resnet50.py",
            PROGRESS_BAR,
            arguments=(*_PHOTOGRAPHS, "--no-cuda", "--checkpoint-format",
                       "{work}/checkpoint-{{epoch}}.pth.tar"), preparation="torchvision",
            needs=("torchvision", "tensorboard", "tqdm")),
    Example("pytorch_lightning_mnist", "pytorch/pytorch_lightning_mnist.py", LIGHTNING,
            arguments=_DIGITS, preparation="torchvision",
            needs=("torchvision", "pytorch_lightning", "tensorboard")),
    Example("adasum_small_model", "adasum/adasum_small_model.py"),
    *_both_keras("elastic tensorflow2_synthetic_benchmark",
                 "elastic/tensorflow2/tensorflow2_synthetic_benchmark_elastic.py", IMAGES,
                 arguments=_FEW, elastic=True),
    *_both_keras("elastic tensorflow2_mnist", "elastic/tensorflow2/tensorflow2_mnist_elastic.py",
                 STEPS, preparation="keras", elastic=True),
    *_both_keras("elastic tensorflow2_keras_mnist",
                 "elastic/tensorflow2/tensorflow2_keras_mnist_elastic.py", KERAS,
                 preparation="keras", elastic=True),
    Example("elastic pytorch_synthetic_benchmark",
            "elastic/pytorch/pytorch_synthetic_benchmark_elastic.py", IMAGES,
            arguments=(*_FEW, "--no-cuda"), elastic=True, preparation="torchvision",
            needs=("torchvision",)),
    Example("elastic pytorch_mnist", "elastic/pytorch/pytorch_mnist_elastic.py", SAMPLES,
            arguments=_DIGITS, elastic=True, preparation="torchvision", needs=("torchvision",)),
    Example("elastic pytorch_imagenet_resnet50",
            "elastic/pytorch/pytorch_imagenet_resnet50_elastic.py",
            PROGRESS_BAR,
            arguments=(*_PHOTOGRAPHS, "--no-cuda", "--checkpoint-format",
                       "{work}/checkpoint-{{epoch}}.pth.tar"), elastic=True,
            preparation="torchvision", needs=("torchvision", "tensorboard", "tqdm")),
    Example("tensorflow_synthetic_benchmark", "tensorflow/tensorflow_synthetic_benchmark.py",
            IMAGES, arguments=_FEW),
    Example("tensorflow_mnist", "tensorflow/tensorflow_mnist.py", STEPS, preparation="keras"),
    Example("tensorflow_mnist_eager", "tensorflow/tensorflow_mnist_eager.py", STEPS,
            preparation="keras"),
    Example("tensorflow_mnist_estimator", "tensorflow/tensorflow_mnist_estimator.py",
            preparation="keras"),
    Example("tensorflow_keras_mnist", "tensorflow/tensorflow_keras_mnist.py", KERAS,
            preparation="keras"),
    Example("tensorflow_word2vec", "tensorflow/tensorflow_word2vec.py"),
    Example("elastic tensorflow_keras_mnist",
            "elastic/tensorflow/tensorflow_keras_mnist_elastic.py", KERAS, preparation="keras",
            elastic=True),
    *(Example(f"tf_cnn_benchmarks {model}", "tf_cnn_benchmarks.py",
              LastNumber("images/s", r"total images/sec: ([\d.]+)"),
              arguments=(f"--model={model}", *_TF_CNN), tf_cnn=True, environment=LEGACY_KERAS,
              needs=("tf_keras",))
      for model in ("resnet50", "alexnet")),
)
