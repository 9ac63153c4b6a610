"""What check_mpijob finds wrong: required fields, and a definition written here."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import mpijob
import pytest
import ways
import yaml

CHECK = Path(mpijob.__file__).parent / "check_mpijob"
JOB = mpijob.read(ways.EXAMPLES / "mpijob.yaml")
LAUNCHER = ("spec", "mpiReplicaSpecs", "Launcher")

# A part of the operator's, made for these tests. Enough for the example: its pods may be anything.
REPLICA = {"type": "object", "properties": {
    "replicas": {"type": "integer", "format": "int32"}, "restartPolicy": {"type": "string"},
    "template": {"type": "object", "x-kubernetes-preserve-unknown-fields": True,
                 "properties": {"spec": {"type": "object",
                                         "x-kubernetes-preserve-unknown-fields": True}}}}}
SCHEMA = {"type": "object", "properties": {
    "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "required": ["mpiReplicaSpecs"], "properties": {
        "mpiImplementation": {"type": "string", "enum": ["OpenMPI", "Intel"]},
        "slotsPerWorker": {"type": "integer", "nullable": True},
        "runPolicy": {"type": "object", "properties": {
            "backoffLimit": {"type": "integer"}, "cleanPodPolicy": {"type": "string"}}},
        "mpiReplicaSpecs": {"type": "object", "additionalProperties": REPLICA}}}}}


def definition(version: str = "v2beta1", kind: str = "MPIJob") -> dict:
    versions = [{"name": version, "schema": {"openAPIV3Schema": SCHEMA}}]
    return {"spec": {"group": "kubeflow.org", "names": {"kind": kind}, "versions": versions}}


def change(path: tuple[str, ...], value: object = None) -> dict:
    """The example with another value at this place, or without it."""
    job = copy.deepcopy(JOB)
    inner = job
    for name in path[:-1]:
        inner = inner[name]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return job


@pytest.mark.parametrize("path", [
    ("apiVersion",), ("kind",), ("metadata", "name"), ("spec", "slotsPerWorker"),
    ("spec", "runPolicy", "cleanPodPolicy"), LAUNCHER, (*LAUNCHER, "replicas"),
    (*LAUNCHER, "template"), (*LAUNCHER, "template", "spec", "containers"),
    ("spec", "mpiReplicaSpecs", "Worker"),
], ids=".".join)
def test_required(path):
    problem, = mpijob.problems(change(path))
    assert f"'{path[-1]}' is a required property" in problem


@pytest.mark.parametrize("path, value", [
    (("apiVersion",), "kubeflow.org/v1"), (("metadata", "name"), "Digits_1"),
    (("spec", "slotsPerWorker"), "two"), (("spec", "runPolicy", "cleanPodPolicy"), "Some"),
    ((*LAUNCHER, "replicas"), 2), ((*LAUNCHER, "restartPolicy"), "Always"),
    ((*LAUNCHER, "template", "spec", "containers"), [{"name": "launcher"}]),
    ((*LAUNCHER, "template", "spec", "restartPolicy"), "Never"),
    (("spec", "mpiReplicaSpecs", "Worker", "replicas"), 0),
], ids=lambda value: ".".join(value) if isinstance(value, tuple) else "")
def test_wrong_values(path, value):
    assert len(mpijob.problems(change(path, value))) == 1


def test_a_definition_that_fits():
    schema = mpijob.schema_of(definition())
    assert mpijob.problems(JOB, schema) == []
    job = copy.deepcopy(JOB)
    job["spec"]["slotsPerWorker"] = None  # nullable
    assert mpijob.problems(job, schema) == []


@pytest.mark.parametrize("path, value, problem", [
    (("spec", "mpiImplementation"), "MPICH", "spec.mpiImplementation: 'MPICH' is not one of"),
    (("spec", "runPolicy", "backoffLimit"), "0", "spec.runPolicy.backoffLimit: '0' is not of type"),
    (("spec", "slotPerWorker"), 2, "spec: Additional properties are not allowed"),
    ((*LAUNCHER, "replica"), 1, "spec.mpiReplicaSpecs.Launcher: Additional properties"),
    (("spec", "mpiReplicaSpecs"), None, "spec: 'mpiReplicaSpecs' is a required property"),
])
def test_a_definition_that_does_not_fit(path, value, problem):
    answer, = mpijob.problems(change(path, value), mpijob.schema_of(definition()))
    assert answer.startswith(problem)


@pytest.mark.parametrize("document, message", [
    (definition(kind="Job"), "no CustomResourceDefinition of kubeflow.org's MPIJob"),
    ({"kind": "List"}, "no CustomResourceDefinition"),
    (definition(version="v1"), "no v2beta1, but v1"),
])
def test_definitions_of_something_else(document, message):
    with pytest.raises(ValueError, match=message):
        mpijob.schema_of(document)


def check(tmp_path: Path, job: dict, crd: dict) -> subprocess.CompletedProcess:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(crd))
    return subprocess.run(
        [sys.executable, CHECK, tmp_path / "job.yaml", "--crd", tmp_path / "crd.yaml"],
        capture_output=True, text=True)


def test_command(tmp_path):
    fits = check(tmp_path, JOB, definition())
    assert (fits.returncode, fits.stdout) == (0, "1 checked, nothing is wrong\n")
    wrong = check(tmp_path, change(("spec", "slotPerWorker"), 2), definition())
    assert wrong.returncode == 1
    assert "job.yaml: spec: Additional properties are not allowed" in wrong.stdout
    answer = check(tmp_path, JOB, definition(kind="Job"))
    assert answer.returncode == 2
    assert "crd.yaml: this is no CustomResourceDefinition" in answer.stderr
