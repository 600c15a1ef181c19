from datetime import timedelta
from pathlib import Path

import pytest

from gristmill import settings
from gristmill.errors import SetupError


@pytest.fixture(autouse=True)
def _no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_the_defaults_bind_loopback() -> None:
    config = settings.load()
    assert (config.host, config.port) == ("127.0.0.1", 7373)


def test_the_reconciler_runs_every_five_minutes_by_default() -> None:
    """S3-12."""
    assert settings.load().reconcile_cron == "*/5 * * * *"


def test_an_unknown_name_is_an_error_that_suggests_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRISTMILL_PROT", "80")
    with pytest.raises(SetupError, match="Did you mean GRISTMILL_PORT") as caught:
        settings.load()
    assert caught.value.code == "unknown_setting"


def test_a_bad_value_is_told_with_its_name_and_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRISTMILL_PORT", "hunter2")
    with pytest.raises(SetupError, match="port") as caught:
        settings.load()
    assert caught.value.code == "bad_setting"
    assert "hunter2" not in caught.value.message


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gristmill.toml").write_text('port = 1000\nhost = "::1"\n')
    monkeypatch.setenv("GRISTMILL_PORT", "2000")
    config = settings.load()
    assert (config.host, config.port) == ("::1", 2000)


def test_an_argument_wins_over_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gristmill.toml").write_text("port = 1000\n")
    monkeypatch.setenv("GRISTMILL_PORT", "2000")
    assert settings.load(port=3000, host=None).port == 3000


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("prot = 1\n", "bad_setting"),
        ("port = \n", "bad_config_file"),
        ("[embedders.x]\nurl='a'\n", "bad_setting"),
    ],
)
def test_a_mistake_in_the_file_is_told(tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "gristmill.toml").write_text(text)
    with pytest.raises(SetupError) as caught:
        settings.load()
    assert caught.value.code == code


def test_a_file_that_is_named_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRISTMILL_CONFIG", "elsewhere.toml")
    with pytest.raises(SetupError, match=r"elsewhere\.toml"):
        settings.load()


def test_embedders_come_from_the_file_and_keep_their_key_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gristmill.toml").write_text(
        '[embedders.mine]\nurl = "http://localhost:11434/v1"\nmodel = "m"\ndimensions = 8\n'
    )
    monkeypatch.setenv("GRISTMILL_EMBEDDERS__MINE__API_KEY", "hunter2")
    config = settings.load()
    mine = config.embedders["mine"]
    assert (mine.model, mine.timeout) == ("m", timedelta(seconds=60))
    assert mine.api_key is not None
    assert mine.api_key.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize("text", ["20", "20.0", "PT20S", "00:00:20"])
def test_a_duration_is_seconds_or_iso(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("GRISTMILL_LEASE", text)
    assert settings.load().lease == timedelta(seconds=20)


def test_the_data_dir_is_made_absolute(tmp_path: Path) -> None:
    assert settings.load(data_dir="here").data_dir == tmp_path / "here"


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("GRISTMILL_ALLOWED_HOSTS", "kb.hunter2.example"),
        ("GRISTMILL_OIDC_GROUPS", "hunter2=Research"),
        ("GRISTMILL_LEASE", "0"),
    ],
)
def test_a_value_in_another_form_is_reported_with_its_name(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str
) -> None:
    """A list that is no JSON, and a lease that would expire at once, so that every job would be taken twice."""
    monkeypatch.setenv(variable, text)
    with pytest.raises(SetupError, match=f"(?i){variable.removeprefix('GRISTMILL_')}") as caught:
        settings.load()
    assert caught.value.code == "bad_setting"
    assert "hunter2" not in caught.value.message
