"""Every setting: accepted values, canonical form, and errors that say what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horovod_opt import settings
from horovod_opt.settings import MODES, OFF, TABLE, Settings, SettingsError, load

ROOT = Path(__file__).parents[3]


def error_of(**environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load({f"HOROVOD_OPT_{name}": value for name, value in environ.items()})
    return str(caught.value)


def test_nothing_set_is_upstream_behaviour():
    assert load({"PATH": "/bin"}) == Settings()
    assert Settings().mode == OFF
    assert Settings().mode_bits == 0


@pytest.mark.parametrize(
    "text, mode, bits",
    [
        ("", "off", 0),
        ("  ", "off", 0),
        ("OFF", "off", 0),
        ("gs", "gs", 1),
        ("NBCS", "nbcs", 2),
        ("scp", "scp", 4),
        (" nbcs + GS ", "gs+nbcs", 3),
        ("scp+nbcs+gs", "gs+nbcs+scp", 7),
        ("topo", "topo", 8),
        ("scp+topo", "topo+scp", 12),
        ("auto", "auto", 16),
    ],
)
def test_modes_are_canonical(text, mode, bits):
    loaded = load({"HOROVOD_OPT_MODE": text})
    assert (loaded.mode, loaded.mode_bits) == (mode, bits)


@pytest.mark.parametrize(
    "text, says",
    [
        ("nbsc", "'nbsc' is not a mode. Did you mean nbcs?"),
        ("topologic", "'topologic' is not a mode."),
        ("auto+scp", "'auto' combines with no other mode."),
        ("topo+gs", "'gs' does not combine with 'topo', which has no cycles to pace."),
        ("nbcs+scp+topo", "'nbcs' does not combine with 'topo'"),
        ("gs,nbcs", "'gs,nbcs' is not a mode."),
        ("off+gs", "'off' combines with no other mode."),
        ("gs+GS", "'gs' is named more than once."),
        ("off+off", "'off' is named more than once."),
        ("gs+", "a mode is missing beside the '+'."),
        ("+", "a mode is missing beside the '+'."),
    ],
)
def test_wrong_modes(text, says):
    message = error_of(MODE=text)
    assert f"HOROVOD_OPT_MODE='{text}'" in message
    assert says in message
    assert "Valid: off, or gs, nbcs, topo, scp" in message


@pytest.mark.parametrize("text, remedy", [
    ("64MB", "67108864 for 64MB"), ("64 MiB", "67108864 for 64 MIB"), ("4k", "4096 for 4K"),
    ("1GiB", "1073741824 for 1GIB"), ("64.5", "67108864 for 64 MiB"), ("-1", "67108864"),
    ("1e6", "67108864"), ("0x400000", "67108864"), ("+64", "67108864"), ("64MB64", "67108864"),
    ("9" * 19, "67108864"),
])
@pytest.mark.parametrize("mode", ["gs", "nbcs", "scp", "topo", "topo+scp", "auto"])
def test_a_fusion_threshold_that_is_no_number_of_bytes(mode, text, remedy):
    environ = {"HOROVOD_OPT_MODE": mode, "HOROVOD_FUSION_THRESHOLD": text}
    with pytest.raises(SettingsError) as caught:
        load(environ)
    assert f"HOROVOD_FUSION_THRESHOLD='{text}' is not a whole number of bytes" in str(caught.value)
    assert remedy in str(caught.value)
    assert load({**environ, "HOROVOD_OPT_MODE": "off"}) == Settings()  # upstream's to read


@pytest.mark.parametrize("text, threshold", [
    ("", None), (" ", None), ("0", 0), ("64", 64), (" 67108864 ", 67108864)])
def test_fusion_thresholds(text, threshold):
    environ = {"HOROVOD_OPT_MODE": "topo", "HOROVOD_FUSION_THRESHOLD": text}
    load(environ)
    assert settings.fusion_threshold(environ) == threshold
    assert settings.fusion_threshold({}) is None


@pytest.mark.parametrize(
    "name, text, says",
    [
        ("GS_INTERVAL", "often", "is not a whole number"),
        ("GS_INTERVAL", "1.5", "is not a whole number"),
        ("GS_INTERVAL", "1_000", "is not a whole number"),
        ("GS_INTERVAL", "٣", "is not a whole number"),
        ("GS_INTERVAL", "9" * 5000, "is not a whole number"),
        ("GS_INTERVAL", "0", "is out of bounds"),
        ("GS_INTERVAL", "-1", "is out of bounds"),
        ("NBCS_YIELDS", "-1", "is out of bounds"),
        ("NBCS_SLEEP_MIN_US", "0", "is out of bounds"),
        ("NBCS_SLEEP_MAX_US", "1000001", "is out of bounds"),
        ("STATS", "2", "is out of bounds"),
        ("STATS", "yes", "is not a whole number"),
    ],
)
def test_wrong_integers(name, text, says):
    message = error_of(**{name: text})
    row = next(row for row in TABLE if row.name == f"HOROVOD_OPT_{name}")
    assert message.startswith(f"{row.name}=")
    assert says in message
    assert f"Valid: {row.valid}" in message
    assert f"default, {row.default}" in message
    assert len(message) < 300


def test_long_values_are_cut_and_odd_bytes_are_printable():
    assert "x" * 61 not in error_of(MODE="x" * 5000)
    assert error_of(MODE="gs\udcff").isascii()


def test_first_sleep_above_the_longest():
    message = error_of(NBCS_SLEEP_MIN_US="300", NBCS_SLEEP_MAX_US="200")
    assert "NBCS_SLEEP_MIN_US=300 is greater than HOROVOD_OPT_NBCS_SLEEP_MAX_US=200" in message
    default = Settings().nbcs_sleep_max_us
    assert f"MAX_US={default}" in error_of(NBCS_SLEEP_MIN_US=str(default + 1))
    assert load({"HOROVOD_OPT_NBCS_SLEEP_MIN_US": str(default)}).nbcs_sleep_min_us == default


def test_the_tuner_is_not_deterministic():
    environ = {"HOROVOD_OPT_DETERMINISTIC": "1", "HOROVOD_AUTOTUNE": "1"}
    with pytest.raises(SettingsError) as raised:
        load(environ)
    assert "HOROVOD_OPT_DETERMINISTIC=1 and HOROVOD_AUTOTUNE='1'" in str(raised.value)
    assert "Unset one of them" in str(raised.value)
    for name, value in (("HOROVOD_AUTOTUNE", "0"), ("HOROVOD_OPT_DETERMINISTIC", "0")):
        load({**environ, name: value})


def test_misspelt_names():
    message = error_of(NBCS_SLEEP_MAX="200")
    assert "HOROVOD_OPT_NBCS_SLEEP_MAX='200': there is no such setting." in message
    assert "Did you mean HOROVOD_OPT_NBCS_SLEEP_MAX_US?" in message
    assert "there is no such setting" in error_of(ZZZZZZ="")


def test_what_the_build_reads_is_no_misspelling():
    assert load({"HOROVOD_OPT_UPSTREAM": "/tmp/horovod.tar.gz"}) == Settings()


def test_all_problems_are_named_at_once():
    message = error_of(MODE="fast", STATS="2", GS_INTERVALS="3")
    assert len(message.splitlines()) == 3


@st.composite
def any_settings(draw) -> Settings:
    values = {
        row.field: draw(st.integers(row.minimum, row.maximum))
        for row in TABLE
        if row.minimum is not None
    }
    low, high = sorted((values["nbcs_sleep_min_us"], values["nbcs_sleep_max_us"]))
    values.update(nbcs_sleep_min_us=low, nbcs_sleep_max_us=high)
    alone = draw(st.sampled_from([OFF, "auto", "topo", "topo+scp", ""]))
    modes = draw(st.sets(st.sampled_from(["gs", "nbcs", "scp"])))
    mode = alone or "+".join(mode for mode in MODES if mode in modes) or OFF
    return Settings(mode=mode, **values)


@given(any_settings())
def test_the_canonical_text_reads_back(values):
    environ = dict(line.split("=", 1) for line in values.text.splitlines())
    assert list(environ) == [row.name for row in TABLE]
    assert load(environ) == values
    assert settings.mode_name(values.mode_bits) == values.mode


@given(st.text())
def test_any_text_is_read_or_refused(text):
    for row in TABLE:
        try:
            values = load({row.name: text})
        except SettingsError as error:
            assert row.name in str(error)
        else:
            assert values == load(dict(line.split("=", 1) for line in values.text.splitlines()))


def test_settings_without_effect():
    given_of_gs = {"HOROVOD_OPT_MODE": "gs", "HOROVOD_OPT_GS_INTERVAL": "2"}
    environ = {**given_of_gs, "HOROVOD_OPT_SCP_CORE": "0", "HOROVOD_OPT_STATS": "1"}
    assert settings.ineffective(load(environ), environ) == ["HOROVOD_OPT_SCP_CORE"]


def test_auto_may_use_the_settings_of_topo_and_scp():
    environ = {"HOROVOD_OPT_MODE": "auto", "HOROVOD_OPT_SCP_CORE": "0", "HOROVOD_OPT_RECUT": "0",
               "HOROVOD_OPT_GS_INTERVAL": "2"}
    assert settings.ineffective(load(environ), environ) == ["HOROVOD_OPT_GS_INTERVAL"]


def run_module(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-W", "error", "-m", "horovod_opt.settings", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_help_names_every_setting():
    answer = run_module()
    assert answer.returncode == 0 and answer.stderr == ""
    for row in TABLE:
        assert f"{row.name}   default {row.default}" in answer.stdout


def test_unknown_option_of_the_help():
    assert "usage: python -m horovod_opt.settings" in run_module("--html").stderr


def test_the_docs_are_up_to_date():
    assert run_module("--markdown").stdout == (ROOT / "docs" / "use" / "settings.md").read_text(), (
        "write it anew: python -m horovod_opt.settings --markdown > docs/use/settings.md"
    )
