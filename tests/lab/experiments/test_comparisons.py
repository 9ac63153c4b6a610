"""What each experiment makes of its documents, beside the source's numbers."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

import alexnet
import between_nodes
import cis_window
import context_switches
import cpu_usage
import gs_interval
import lmdbio
import networks
import scaling
import step_breakdown
import study
import summit
import tensorflow_io
import tf_cnn_benchmarks

from horovod_lab.report.source import Beside
from horovod_lab.simulate.summit import FIGURES

LIMIT = "no communication"


def entry(series: str, images: float, **changed: object) -> dict:
    """Images/s, and as many involuntary switches in ten steps."""
    stats = {"background_user_seconds": 1.5, "background_system_seconds": 0.3,
             "elapsed_seconds": 3.0, "process_involuntary_switches": changed.pop("switches", 100)}
    return {"round": 0, "model": "ResNet50", "framework": "tensorflow", "input": "synthetic",
            "ranks": 2, "batch": 4, "pixels": 96, "separate": False, "series": series,
            "images_per_second": images, "step_seconds": 8 / images, "steps": 10,
            "breakdown": None, "stats": None if series == LIMIT else [stats], **changed}


def bench(*measurements: dict, scaling: str = "weak") -> list[dict]:
    return [{"kind": "bench", "measurements": list(measurements), "settings": {"scaling": scaling}}]


def as_text(besides: list[Beside]) -> dict[str, tuple[str, str]]:
    """(the source's, ours) by what it is."""
    return {beside.reported.label: (beside.reported.text(), beside.reported.show(beside.here))
            for beside in besides}


def test_weak_scaling():
    documents = bench(
        entry(LIMIT, 20.0), entry("off", 10.0), entry("gs", 11.0), entry("topo", 15.0),
        entry(LIMIT, 20.0, ranks=4), entry("off", 8.0, ranks=4),
        entry("topo", 14.0, ranks=4))
    assert as_text(scaling.compare(documents)) == {
        "largest gain of gs over off, %": ("up to 10", "10"),
        "largest gain of topo over off, %": ("up to 21", "75"),
        "efficiency of off at the largest number of ranks, %": ("30.3 (24,576 GPUs)", "40.0")}


def test_between_nodes_the_faster_off_counts():
    def training(layout: str, series: str, images: float, number: int = 0) -> dict:
        return {"round": number, "workload": "resnet50", "layout": layout, "series": series,
                "images_per_second": images, "step_seconds": 8 / images}

    documents = [{"kind": "nodes", "measurements": [
        training("2x1", "off, yielding", 10.0), training("2x1", "off, Gloo", 12.0),
        training("2x1", "topo", 15.0), training("2x1", "off, yielding", 10.0, 1),
        training("2x1", "off, Gloo", 12.0, 1), training("2x1", "topo", 18.0, 1),
        training("4x2", "off, yielding", 8.0), training("4x2", "topo", 10.0),
        training("2x1@1000", "off, yielding", 4.0), training("2x1@1000", "topo", 6.0)]}]
    assert [(round(beside.here, 3), beside.at) for beside in between_nodes.compare(documents)] == [
        (0.375, "2 nodes of 1, over off, Gloo"), (0.25, "4 nodes of 2, over off, yielding")]


def test_the_interval_of_gs_that_is_fastest_with_each_number_of_ranks():
    documents = bench(
        entry("off", 10.0), entry("gs", 11.0), entry("gs, every 5", 12.0),
        entry("topo", 15.0), entry("off", 8.0, ranks=4), entry("gs", 10.0, ranks=4),
        entry("gs, every 50", 9.0, ranks=4))
    besides = gs_interval.compare(documents)
    assert [(beside.here, beside.at.split(", ")[3]) for beside in besides] == [
        (5, "2 ranks of batch 4"), (1, "4 ranks of batch 4")]


def test_intervals_of_gs_that_the_noise_does_not_tell_apart_are_named():
    documents = bench(*(
        entry(series, images + noise, round=number)
        for number, noise in enumerate((-0.1, 0.0, 0.1))
        for series, images in (("off", 10.0), ("gs", 12.0), ("gs, every 2", 12.01),
                               ("gs, every 5", 11.0))))
    (beside,) = gs_interval.compare(documents)
    assert beside.here == 2
    assert beside.at.endswith("2 ranks of batch 4; no slower within the intervals: 1")


def test_strong_scaling_takes_the_best_mode_of_the_sources():
    documents = bench(entry("off", 10.0), entry("gs", 11.0), entry("topo", 12.0),
                      entry("gs+nbcs", 19.0), scaling="strong")
    assert as_text(scaling.compare(documents)) == {
        "largest gain over off, strong scaling, %": ("up to 19", "20")}


def test_each_network_is_beside_its_own_number():
    documents = bench(*(entry(series, images, model=model, ranks=ranks) for model, series, images,
                        ranks in (("VGG16", "off", 10.0, 2), ("VGG16", "topo", 10.3, 2),
                                  ("VGG16", "off", 10.0, 4), ("VGG16", "topo", 10.1, 4),
                                  ("AlexNet", "off", 10.0, 2), ("AlexNet", "topo", 9.5, 2),
                                  ("ResNet152", "off", 2.0, 2), ("ResNet152", "topo", 2.2, 2))))
    assert as_text(networks.compare(documents)) == {
        "gain of topo over off, VGG16, %": ("2 to 6", "3"),
        "gain of topo over off, AlexNet, %": ("about -6", "-5"),
        "gain of topo over off, ResNet152, %": ("5 to 21 (the ResNets)", "10")}


def test_tf_cnn_benchmarks_has_every_mode_of_resnet50_and_alexnet():
    of = {"framework": "tf_cnn_benchmarks", "stats": None}
    documents = bench(*(entry(series, images, model=model, **of) for model, series, images in (
        ("ResNet50", "off", 10.0), ("ResNet50", "nbcs", 11.0), ("ResNet50", "topo", 12.0),
        ("AlexNet", "off", 10.0), ("AlexNet", "nbcs", 20.0), ("AlexNet", "topo", 11.0))))
    assert as_text(tf_cnn_benchmarks.compare(documents)) == {
        "largest gain of nbcs over off, %": ("up to 16", "10"),
        "largest gain of topo over off, %": ("up to 21", "20"),
        "gain of topo over off, AlexNet, %": ("about -6", "10")}


def test_who_waits_in_topo_waits_for_data():
    parts = {"computation": 0.2, "waiting": 0.1, "negotiation": 0.3, "data": 0.4}
    documents = bench(*(entry(series, 8.0, separate=True, breakdown=parts)
                        for series in ("off", "topo")), entry("off", 9.0))
    assert as_text(step_breakdown.compare(documents)) == {
        "allreduce in off, % of a step": ("up to 70.3", "80.0"),
        "idle, % of the allreduce in off": ("67 to 100", "50"),
        "background thread's overhead in off, % of a step": ("about 46", "40"),
        "background thread's overhead in topo, % of a step": ("3.4", "30.0")}


def test_switches_by_input_and_by_mode():
    documents = bench(entry("off", 10.0, switches=100), entry("topo", 12.0, switches=25),
                      entry("off", 9.0, switches=300, input="real"))
    assert as_text(context_switches.compare(documents)) == {
        "involuntary switches, real over synthetic input, off": ("8.5", "3"),
        "involuntary switches, off over topo": ("3 to 25", "4")}


def test_cpu_usage_is_the_mean_of_the_ranks():
    def profile(mode: str, *user: float) -> dict:
        return {"kind": "profile", "label": mode, "job": {"ranks": len(user)}, "ranks": [
            {"steady": {"seconds": 10.0, "classes": {
                cpu_usage.BACKGROUND: {"user_seconds": seconds, "system_seconds": 1.0}}}}
            for seconds in user]}

    besides = cpu_usage.compare([profile("off", 7.0, 9.0), profile("topo", 0.0, 0.0)])
    assert as_text(besides) == {
        "background thread in off, % of a core": ("60 to 90", "90"),
        "background thread in topo, % of a core": ("about 6", "10")}
    assert besides[0].at == "ResNet50, 2 ranks"


def test_what_the_simulation_was_fitted_to_is_marked():
    rows = [{"figure": figure.text, "simulated": 0.5, "fitted": figure.fitted}
            for figure in FIGURES]
    networks = [{"network": name, "simulated": 0.04, "ranks": 1536, "source": source,
                 "fitted": is_fitted} for name, source, is_fitted in (
        ("VGG16", [0.02, 0.06], False), ("ResNet18", None, False),
        ("ResNet50", [0.21, 0.21], True))]
    besides = summit.compare([{"kind": "simulation", "source": rows, "networks": networks}])
    assert len(besides) == len(FIGURES) + 1
    labels = {beside.reported.label for beside in besides if beside.fitted}
    assert labels == {"efficiency of off at the largest number of ranks, %",
                      *(f"largest gain of {mode} over off, %" for mode in ("gs", "nbcs", "topo"))}
    assert (besides[-1].reported.label, besides[-1].at) == (
        "gain of topo over off, VGG16, %", "1,536 ranks, simulated")


def test_each_strategy_of_lmdbio_is_beside_its_own_number():
    def job(series: str, speed: float, number: int = 0, switches: int = 100) -> dict:
        return {"round": number, "ranks": 8, "series": series, "samples_per_second": speed,
                "voluntary_switches": switches, "involuntary_switches": 20}

    documents = [{"kind": "io-lmdb", "settings": {"nodes": 4, "batch": 2}, "measurements": [
        job("lmdb", 10.0), job("stag", 30.0), job("lmdb", 20.0, 1), job("stag", 80.0, 1),
        job("lmm", 11.0, switches=40),
        {"round": 0, "ranks": 8, "series": "dm", "failed": "ended with exit code 1"}]}]
    besides = lmdbio.compare(documents)
    assert as_text(besides) == {
        "samples/s of LMM over LMDB": ("up to 43.8 (1,152 cores)", "1.1"),
        "samples/s of STAG over LMDB": ("81 (4,608 cores)", "3.5"),
        "context switches, LMDB over LMM": ("up to more than 83", "2")}
    assert besides[0].at == "8 ranks, 4 nodes, batch 2"


def test_threads_of_tf_data_are_beside_the_device_that_a_stand_is_like():
    def run(threads: int, speed: float, pixels: int | None = None, **more) -> dict:
        return {"threads": threads, "batch": 64, "prefetch": 0, "pixels": pixels,
                "images_per_second": speed, "seconds": 4.0, "waited_seconds": 1.0, **more}

    def document(stand: str, *runs: dict, step: float = 0.0) -> dict:
        settings = {"stand": stand, "threads": [1, 8], "batch": [64], "prefetch": [0, 1],
                    "preprocessing": ["without", "with"], "step_seconds": step}
        return {"kind": "io-stream", "settings": settings, "measurements": [
            {"round": number, "series": "tf-data", "runs": list(runs)} for number in (0, 1)]}

    besides = tensorflow_io.compare([
        document("warm", run(1, 10.0), run(8, 20.0)),
        document("disk", run(1, 10.0), run(8, 11.0), run(1, 10.0, 224), run(8, 15.0, 224)),
        document("parallel", run(1, 10.0), run(8, 50.0)),
        document("disk", run(8, 10.0, 224), run(8, 10.0, 224, prefetch=1), step=0.5)])
    assert as_text(besides) == {
        "images/s on HDD, 8 threads over 1: tf.data, without decoding": ("2.3", "1.1"),
        "images/s on HDD, 8 threads over 1: tf.data, with decoding": ("2.3", "1.5"),
        "images/s on Lustre, 8 threads over 1: tf.data, without decoding": ("up to 7.8", "5"),
        "of the time steps wait for input with prefetch 1, %: tf.data": (
            "0.0 (complete overlap)", "25.0")}
    assert besides[-1].at == "stand disk, 8 threads, prefetch 1"


def test_alexnet():
    def of(part: str, seconds: float, threads: int = 8, batch: int = 64, prefetch: int = 1,
           **more) -> dict:
        return {"part": part, "threads": threads, "batch": batch, "prefetch": prefetch,
                "seconds": seconds, "waited_seconds": seconds / 4, "saved_seconds": [],
                "variables_bytes": 2e8, **more}

    document = {
        "settings": {"threads": [1, 8], "batch": [16, 64], "prefetch": [0, 1], "width": 0.5},
        "measurements": [
            *(of(part, seconds, threads, prefetch=prefetch, traces={"read": [1.0 + prefetch]})
              for part in ("disk", "memory") for threads, prefetch, seconds in (
                  (1, 0, 9.0), (8, 0, 8.0), (1, 1, 6.0), (8, 1, 5.0))),
            *(of("batches", 20.0, batch=16, prefetch=prefetch) for prefetch in (0, 1)),
            of("slow", 65.0, saved_seconds=[13.0, 13.0]), of("fast", 49.0),
            of("burst", 50.0, saved_seconds=[5.0, 5.0])]}
    besides = alexnet.compare([document])
    assert as_text(besides) == {
        "of the time steps wait for input with prefetch 1, %": (
            "0.0 (complete overlap)", "25.0"),
        "time of the slowest over the fastest with prefetch 1, x": ("1 (the same)", "1.2"),
        "time with the largest batch over the smallest, prefetch 0, x": ("less than 1", "0.4"),
        "time with the largest batch over the smallest, prefetch 1, x": ("less than 1", "0.25"),
        "MB/s read from HDD, prefetch 1 over 0, x": ("more than 1", "2"),
        "time lost to checkpoints, slow over burst buffer, x": ("2.6", "2.6"),
        "time of the whole training, slow over burst buffer, x": ("2.6", "1.3"),
        "time of the whole training, burst buffer over fast, x": ("1 (little difference)", "1.02"),
        "MB of a checkpoint": ("roughly 600", "200")}
    assert alexnet.compare([{**document, "measurements": []}]) == []


def test_cis_window():
    rows = [{"network": "ResNet50", "nodes": 4000, "edges": 6000, "buckets": [20, 1],
             "images_per_second": 1_281_167 / 999, "step_seconds": 0.8, "window": 0.25,
             "read_seconds": 0.6, "analyse_seconds": 0.4, "plan_seconds": 1.0},
            {"network": "AlexNet", "nodes": 600, "edges": 800, "buckets": [7],
             "images_per_second": 1_281_167 / 99, "step_seconds": 0.8, "window": 0.1,
             "read_seconds": 0.5, "analyse_seconds": 0.5, "plan_seconds": 1.0}]
    besides = cis_window.compare([{"kind": "cis-window", "ranks": 2, "networks": rows}])
    assert as_text(besides) == {  # the source gives no window of AlexNet
        "CIS window of ResNet50, % of a step": ("48", "25"),
        "planning of ResNet50, % of its training": ("0.04", "0.1"),
        "planning of AlexNet, % of its training": ("0.02", "1")}
    assert besides[1].at == "4,000 nodes, 1000 ms, 21 buckets"


@pytest.mark.slow
def test_the_cis_window_of_a_real_run(tmp_path):
    assert cis_window.STUDY.main(["--only", "AlexNet", "--pixels", "67", "--seconds", "1",
                                  "--output", str(tmp_path)]) == 0
    document, = study.read(tmp_path / "cis_window")
    row, = document["networks"]
    assert 0 < row["window"] < 0.9 and row["nodes"] > 16 and sum(row["buckets"]) > 1
    assert 0 < row["analyse_seconds"] < row["plan_seconds"]
    assert row["plan_seconds"] == pytest.approx(row["analyse_seconds"] + row["read_seconds"])


def test_of_the_cis_window_too_few_pixels_are_refused(tmp_path, capsys):
    assert cis_window.STUDY.main(["--only", "AlexNet,Inception-v3", "--pixels", "70",
                                  "--output", str(tmp_path)]) == 2
    assert "Inception-v3: 70 pixels are too few; remedy: --pixels 75" in " ".join(
        capsys.readouterr().err.split())
