"""What the ranks of the scaling benchmark run, in one process and without Horovod."""

from __future__ import annotations

from pathlib import Path

import pytest

MEMINFO = "MemTotal: 100 kB\nMemAvailable:   2097152 kB\n"


class Ranks:
    """Stands for one rank of several: the others answer the same, on the hosts given."""

    rank, size = 0, 2

    def __init__(self, hosts: list[str]):
        self.hosts = hosts

    def allgather(self, value):
        return [[host, value[1]] for host in self.hosts] if value else None


# Memory


def test_memory_is_the_hosts_or_the_containers(worker, tmp_path):
    training = worker("training")
    assert training.available_bytes(MEMINFO, tmp_path) == 2 * training.GIB
    (tmp_path / "memory.current").write_text("1073741824\n")
    gib = training.GIB
    for limit, expected in (("max", 2.0), (str(3 * gib), 2.0), (str(2 * gib), 1.0)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        assert training.available_bytes(MEMINFO, tmp_path) == expected * gib


def test_ranks_of_a_host_share_its_memory(worker, monkeypatch, capsys):
    training = worker("training")
    monkeypatch.setattr(training, "available_bytes", lambda: 2 * training.GIB)
    training.require_memory(Ranks(["a", "b"]), "VGG16", 3 * training.GIB // 2)
    with pytest.raises(SystemExit):
        training.require_memory(Ranks(["a", "a"]), "VGG16", 3 * training.GIB // 2)
    error = capsys.readouterr().err
    assert "VGG16 does not fit the memory of a: 2 ranks need at least 1.5 GiB each" in error


# PyTorch's networks


@pytest.mark.parametrize("name, parameters", [
    ("ResNet18", 11_689_512), ("ResNet34", 21_797_672), ("ResNet50", 25_557_032),
    ("ResNet101", 44_549_160), ("ResNet152", 60_192_808)])
def test_resnets_have_the_published_parameters(worker, name, parameters):
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        model = worker("torch_models").NETWORKS[name]()
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert model(torch.zeros(1, 3, 64, 64, device="meta")).shape == (1, 1000)


# The real input


@pytest.fixture
def images(worker, monkeypatch, tmp_path):
    pytest.importorskip("tensorflow")
    module = worker("images")
    monkeypatch.setattr(module, "FILES", 2)
    monkeypatch.setattr(module, "IMAGES_PER_FILE", 4)
    module.make(tmp_path / "images")
    return module, tmp_path / "images"


def test_images_are_made_once(images):
    module, folder = images
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.iterdir()}
    assert [path.name for path in sorted(before)] == [
        "train-00000-of-00002", "train-00001-of-00002"]
    module.make(folder)
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_size)
                      for path in folder.iterdir()}


def test_ranks_read_different_records_without_end(images):
    module, folder = images
    labels = []
    for rank in range(2):
        classes = set()
        data = module.training_images(folder, 2, 32, rank, 2)
        for _ in range(6):  # 12 images of 4 that this rank has
            batch, numbers = next(data)
            assert batch.shape == (2, 32, 32, 3)
            assert 0.0 <= float(batch.numpy().min()) < float(batch.numpy().max()) <= 1.0
            classes |= set(numbers.numpy().tolist())
        labels.append(classes)
    assert not labels[0] & labels[1]
    assert labels[0] | labels[1] == set(range(8))


def with_labels(module, folder: Path, labels: list[int]) -> Path:
    """Records like those of ImageNet, with these labels."""
    import tensorflow as tf

    folder.mkdir()
    jpeg = tf.io.encode_jpeg(tf.zeros([8, 8, 3], tf.uint8)).numpy()
    with tf.io.TFRecordWriter(str(folder / "train-00000-of-00001")) as file:
        for label in labels:
            file.write(module.record(jpeg, label))
    return folder


def test_imagenets_labels_become_classes(images, tmp_path):
    """Its files count from 1 to 1000, classes from 0 to 999."""
    module, _ = images
    folder = with_labels(module, tmp_path / "imagenet", [1, 1000])
    _, classes = next(module.training_images(folder, 2, 32, 0, 1))
    assert sorted(classes.numpy().tolist()) == [0, 999]


@pytest.mark.parametrize("label", [0, 1001])
def test_a_label_that_is_no_class_is_refused(images, tmp_path, label):
    import tensorflow as tf

    module, _ = images
    folder = with_labels(module, tmp_path / "others", [label] * 2)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        next(module.training_images(folder, 2, 32, 0, 1))
    assert f"The label {label} in {folder} is not between 1 and 1000" in str(caught.value)
