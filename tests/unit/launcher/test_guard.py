"""horovod_opt.pth at the start of a real Python: it refuses foreign horovods, nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site-packages of a new environment with horovod_opt and its .pth."""
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    shutil.copytree(ROOT / "horovod_opt", packages / "horovod_opt",
                    ignore=shutil.ignore_patterns("__pycache__"))  # others write there now
    shutil.copy(ROOT / "horovod_opt.pth", packages)
    return packages


def fake_horovod(folder: Path, version: str, body: str = "") -> Path:
    package = folder / "horovod"
    (package / "torch").mkdir(parents=True)
    (package / "torch" / "__init__.py").write_text("")
    (package / "__init__.py").write_text(f"{body}\n__version__ = '{version}'\n")
    return package


def run(site: Path, code: str, path: str = "", *options: str, **environ: str
        ) -> subprocess.CompletedProcess:
    python = site.parents[2] / "bin" / "python"
    return subprocess.run(
        [python, *options, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": path, **environ},
    )


@pytest.mark.parametrize("statement", ["import horovod", "import horovod.torch as hvd"])
@pytest.mark.parametrize("mode", ["nbcs", "off"])
def test_foreign_horovod_is_refused(site, tmp_path, statement, mode):
    package = fake_horovod(tmp_path, "0.28.1", body="raise SystemExit('its code ran')")
    answer = run(site, statement, str(tmp_path), HOROVOD_OPT_MODE=mode)
    assert answer.returncode == 1
    error = answer.stderr.splitlines()
    assert error[-2].startswith(f"ImportError: HOROVOD_OPT_MODE='{mode}' is set, but")
    assert f"version 0.28.1, {package}" in error[-2]
    assert "pip uninstall horovod; pip install --force-reinstall horovod-opt" in error[-1]
    assert "PYTHONPATH" in error[-1]


@pytest.mark.parametrize("statement", ["import horovod", "import horovod.torch as hvd"])
def test_ours_is_imported(site, tmp_path, statement):
    fake_horovod(tmp_path, "0.28.1+opt.0.1.0")
    answer = run(
        site,
        f"{statement}\nimport horovod; print(horovod.__version__, horovod.__spec__.loader)",
        str(tmp_path),
        HOROVOD_OPT_MODE="nbcs",
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("0.28.1+opt.0.1.0 <_frozen_importlib_external.SourceFileLoader")


@pytest.mark.parametrize("environ", [{}, {"HOROVOD_OPT_MODE": ""}, {"HOROVOD_OPT_MODE": "  "}])
def test_without_a_mode_nothing_is_armed(site, tmp_path, environ):
    fake_horovod(tmp_path, "0.28.1")
    code = "import sys, horovod; assert 'horovod_opt' not in sys.modules; print('fine')"
    answer = run(site, code, str(tmp_path), **environ)
    assert (answer.stdout, answer.stderr) == ("fine\n", "")


def test_looking_for_a_foreign_horovod_is_no_error(site, tmp_path):
    fake_horovod(tmp_path, "0.28.1")
    code = "from importlib.util import find_spec; print(find_spec('horovod').name)"
    answer = run(site, code, str(tmp_path), HOROVOD_OPT_MODE="gs")
    assert (answer.stdout, answer.stderr) == ("horovod\n", "")


def test_no_horovod_at_all(site):
    answer = run(site, "import horovod", HOROVOD_OPT_MODE="gs")
    assert answer.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'horovod'"


def test_a_folder_that_happens_to_be_called_horovod(site, tmp_path):
    (tmp_path / "horovod" / "torch").mkdir(parents=True)
    answer = run(site, "import horovod.torch", str(tmp_path), HOROVOD_OPT_MODE="gs")
    assert f"version unknown, {tmp_path / 'horovod'}" in answer.stderr


def test_other_imports_are_left_alone(site):
    code = "import json, http.client; import nothing_of_that_name"
    answer = run(site, code, HOROVOD_OPT_MODE="gs")
    assert answer.stderr.splitlines()[-1].startswith("ModuleNotFoundError")


@pytest.fixture
def broken(tmp_path) -> str:
    """A folder with a horovod_opt that cannot be imported."""
    package = tmp_path / "broken" / "horovod_opt"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('it is broken')")
    return str(package.parent)


def test_a_broken_horovod_opt_does_not_disturb_other_programs(site, broken):
    answer = run(site, "print('fine')", broken, HOROVOD_OPT_MODE="gs")
    assert (answer.stdout, answer.stderr) == ("fine\n", "")


@pytest.mark.parametrize("statement", ["import horovod", "import horovod.torch as hvd"])
def test_a_guard_that_does_not_start_refuses_every_horovod(site, broken, tmp_path, statement):
    fake_horovod(tmp_path, "0.28.1", body="raise SystemExit('its code ran')")
    path = os.pathsep.join([broken, str(tmp_path)])
    answer = run(site, statement, path, HOROVOD_OPT_MODE="gs")
    assert answer.returncode == 1
    error = answer.stderr.splitlines()[-1]
    assert error.startswith("ImportError: HOROVOD_OPT_MODE='gs' is set, but")
    assert "RuntimeError('it is broken')" in error
    assert "pip install --force-reinstall horovod-opt" in error


def test_the_mode_may_be_unset_before_the_import(site, broken, tmp_path):
    fake_horovod(tmp_path, "0.28.1")
    path = os.pathsep.join([broken, str(tmp_path)])
    code = "import os; del os.environ['HOROVOD_OPT_MODE']; import horovod; print('fine')"
    answer = run(site, code, path, HOROVOD_OPT_MODE="gs")
    assert (answer.stdout, answer.stderr) == ("fine\n", "")


def test_where_no_pth_is_read_stats_tell(site, tmp_path):
    """`python -S`: nothing of ours runs before the script asks for it."""
    fake_horovod(tmp_path, "0.28.1")
    path = os.pathsep.join([str(site), str(tmp_path)])
    code = "import horovod, horovod_opt; horovod_opt.stats()"
    answer = run(site, code, path, "-S", HOROVOD_OPT_MODE="gs")
    assert answer.returncode == 1
    error = answer.stderr.splitlines()[-1]
    assert error.startswith("ValueError") and "0.28.1, is not the one of horovod-opt" in error


def test_starting_python_imports_only_the_guard(site):
    code = (
        "import sys; print([m for m in sys.modules if m.startswith('horovod')]); "
        "print({'typing', 'dataclasses', 're', 'importlib.util'} & set(sys.modules))"
    )
    answer = run(site, code, HOROVOD_OPT_MODE="gs")
    assert answer.stdout.splitlines() == ["['horovod_opt', 'horovod_opt.guard']", "set()"]
