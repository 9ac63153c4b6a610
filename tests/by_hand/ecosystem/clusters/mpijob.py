"""Reads an MPIJob of the MPI Operator, and says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml

API_GROUP, API_VERSION = "kubeflow.org", "v2beta1"
HOST_FILE = Path("/etc/mpi/hostfile")  # where the operator puts it


def _replica(replicas: dict[str, Any]) -> dict[str, Any]:
    container = {"required": ["name", "image"]}
    pod = {"required": ["containers"],
           "properties": {"containers": {"type": "array", "minItems": 1, "items": container}},
           "not": {"required": ["restartPolicy"]}}  # that of the replica counts
    return {"required": ["replicas", "template"], "properties": {
        "replicas": {"type": "integer", **replicas},
        "restartPolicy": {"enum": ["Never", "OnFailure"]},
        "template": {"required": ["spec"], "properties": {"spec": pod}}}}


# What the operator asks for in its validation, beyond its CustomResourceDefinition; with what it
# would fill in by itself.
REQUIRED = {"required": ["apiVersion", "kind", "metadata", "spec"], "properties": {
    "apiVersion": {"const": f"{API_GROUP}/{API_VERSION}"},
    "kind": {"const": "MPIJob"},
    "metadata": {"required": ["name"], "properties": {
        # It becomes a part of host names: name-worker-0.
        "name": {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 50}}},
    "spec": {"required": ["slotsPerWorker", "runPolicy", "mpiReplicaSpecs"], "properties": {
        "slotsPerWorker": {"type": "integer", "minimum": 1},
        "mpiImplementation": {"enum": ["OpenMPI", "Intel", "MPICH"]},
        "runPolicy": {"required": ["cleanPodPolicy"], "properties": {
            "cleanPodPolicy": {"enum": ["None", "Running", "All"]},
            "backoffLimit": {"type": "integer", "minimum": 0}}},
        "mpiReplicaSpecs": {"required": ["Launcher", "Worker"], "properties": {
            "Launcher": _replica({"const": 1}), "Worker": _replica({"minimum": 1})}}}}}}


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


def launcher(job: dict[str, Any]) -> dict[str, Any]:
    """Its one container."""
    (only,) = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    return only


def settings(container: dict[str, Any]) -> dict[str, str]:
    """The environment of a container."""
    return {variable["name"]: variable["value"] for variable in container.get("env", [])}


def problems(job: Any, schema: dict[str, Any] = REQUIRED) -> list[str]:
    """What the schema does not allow, each with its place."""
    errors = jsonschema.Draft202012Validator(schema).iter_errors(job)
    return [f"{error.json_path.removeprefix('$.')}: {error.message}"
            for error in sorted(errors, key=lambda error: error.json_path)]


def schema_of(definition: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a CustomResourceDefinition for this version of an MPIJob. Fields that it
    does not name are wrong, as for kubectl, while Kubernetes drops them. Raises ValueError if it is
    a definition of something else."""
    spec = definition.get("spec", {})
    if (spec.get("group"), spec.get("names", {}).get("kind")) != (API_GROUP, "MPIJob"):
        raise ValueError(f"this is no CustomResourceDefinition of {API_GROUP}'s MPIJob")
    for version in spec["versions"]:
        if version["name"] == API_VERSION:
            return _strict(version["schema"]["openAPIV3Schema"])
    known = ", ".join(version["name"] for version in spec["versions"])
    raise ValueError(f"this definition has no {API_VERSION}, but {known}")


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """In JSON Schema what is there in OpenAPI 3.0 as Kubernetes has it."""
    result = {**schema, **dict(_children(schema))}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result.setdefault("additionalProperties", False)
    return {"anyOf": [result, {"type": "null"}]} if schema.get("nullable") else result


def _children(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if "properties" in schema:
        yield "properties", {name: _strict(child) for name, child in schema["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield name, _strict(schema[name])
