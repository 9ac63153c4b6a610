"""The JSON files of the experiments as one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import importlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import jinja2
import matplotlib

from horovod_lab.measuring.present import Grid, Picture, Section
from horovod_lab.profile.compare import comparison
from horovod_lab.report.source import beside_the_source
from horovod_opt import __version__

# The module with the function `section` for each kind of file, in the order of the page.
KINDS = {
    "profile": "horovod_lab.profile.profile_pictures",
    "bench": "horovod_lab.bench.training.scaling_pictures",
    "simulation": "horovod_lab.simulate.simulation_pictures",
    "overhead": "horovod_lab.bench.overhead.overhead_pictures",
    "steps": "horovod_lab.bench.steps.steps_pictures",
    "nodes": "horovod_lab.bench.nodes.nodes_pictures",
    "sizes": "horovod_lab.bench.sizes.sizes_pictures",
    "c10d": "horovod_lab.bench.c10d.c10d_pictures",
    "traversal": "horovod_lab.report.graph_analysis_section",
}
PIXELS_PER_INCH = 96  # of CSS


@dataclass(frozen=True)
class Image:
    """A picture as a data URI; width and height in CSS pixels, so that nothing jumps when it
    loads."""

    title: str
    caption: str
    data: str
    width: int
    height: int


@dataclass(frozen=True)
class Part:
    section: Section
    pictures: Sequence[Image]
    source: str = ""


def page(documents: Sequence[tuple[Path, dict[str, Any]]], title: str) -> str:
    """The page's text. `documents` are those of `documents.load`, each with its path."""
    ordered = sorted(documents, key=lambda item: list(KINDS).index(item[1]["kind"]))
    contents = [document for _, document in ordered]
    beside = beside_the_source(contents)
    parts = [Part(beside, [])] if beside.grids else []
    profiles = [(document["label"] or path.parent.name, document) for path, document in ordered
                if document["kind"] == "profile"]
    if len(profiles) > 1:
        profile_section = comparison([name for name, _ in profiles],
                                     [profile for _, profile in profiles])
        parts.append(Part(profile_section,
                          [image(picture) for picture in profile_section.pictures]))
    for path, document in ordered:
        section = importlib.import_module(KINDS[document["kind"]]).section(document)
        source = f"From {path.name}, measured on {_date(document['started'])}."
        parts.append(Part(section, [image(picture) for picture in section.pictures], source))
    environment = jinja2.Environment(
        autoescape=True, loader=jinja2.FileSystemLoader(Path(__file__).parent))
    return environment.get_template("template.html").render(
        title=title, version=__version__, made=_date(datetime.now(timezone.utc).isoformat()),
        parts=parts, machines=machines(contents), numbers=numbers)


def numbers(grid: Grid) -> list[bool]:
    """For each column whether it holds numbers, as far as its first entry tells."""
    first = [next(filter(None, column), "") for column in zip(*grid.rows)]
    return [re.match(r"[+-]?[\d.]", entry) is not None for entry in first] or (
        [False] * len(grid.columns))


def _date(start: str) -> str:
    return datetime.fromisoformat(start).strftime("%Y-%m-%d %H:%M UTC")


def image(picture: Picture) -> Image:
    """As SVG, which is sharp at every width; text as paths, so that it needs no font."""
    file = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": picture.name}):
        picture.figure.savefig(file, format="svg", metadata={"Date": None})
    width, height = picture.figure.get_size_inches() * PIXELS_PER_INCH
    return Image(picture.title, picture.caption,
                 "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode(),
                 round(width), round(height))


@dataclass(frozen=True)
class Machine:
    facts: Sequence[tuple[str, str]]
    commands: Sequence[str]


def machines(documents: Sequence[dict[str, Any]]) -> list[Machine]:
    """Each machine once, with what was run there; the load is left out, as it always differs."""
    commands_by_facts: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for document in documents:
        about = document["machine"]
        facts = (
            ("CPU", f"{about['cpu']}, {about['cores']} cores, {about['cpus']} hardware threads"),
            ("memory", f"{about['memory_gib']} GiB"),
            ("system", f"{about['system']}, Linux {about['kernel']}"),
            ("Python", about["python"]),
            *about["versions"].items(),
            *about["environment"].items())
        commands_by_facts.setdefault(facts, []).append(document["command"])
    return [Machine(facts, commands) for facts, commands in commands_by_facts.items()]
