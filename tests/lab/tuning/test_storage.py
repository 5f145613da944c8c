"""The place of a study: no form of a URL, right or wrong, shows a password."""

import pytest

from spherec.errors import ArgumentError, DataError
from spherec.lab.tuning.storage import hide_password
from tests.lab.tuning.runs import tuned

SHOWN = {
    "postgresql://me:hunter2@host:5432/db": "postgresql://me:***@host:5432/db",
    "postgresql://me:hunter2@[::1]:5432/db": "postgresql://me:***@[::1]:5432/db",
    "postgresql+psycopg://me:hun@ter2/hunter2@host/db": "postgresql+psycopg://me:***@host/db",
    "mysql+pymysql://me@host/db?passwd=hunter2": "mysql+pymysql://me@host/db?***",
    "mysql://host/db?key=hunter2&PASSWORD=hunter2": "mysql://host/db?***",
    "mysql://me:hunter2@host/db?password=p@hunter2": "mysql://me:***@host/db?***",
    "postgresql://me:hunter2": "postgresql://***",
    "postgresql://me:hunter2/db": "postgresql://***",
    "postgresql://me:123456789": "postgresql://***",
    "postgresql://me:1234": "postgresql://me:***",
    "postgresql://me:hunter2@host:54x32/db": "postgresql://***",
    "postgresql://me hunter2@host/db": "postgresql://***",
    "postgresql:// me:hunter2@host/db": "postgresql://***",
    "postgresql://mé:hunter2@host/db": "postgresql://***",
    "postgresql://me:hunter2@host\n/db": "postgresql://***",
    "sqlite:///kept.db?password=hunter2": "sqlite:///kept.db?***",
    "sqlite+pysqlcipher://:hunter2@/kept.db": "sqlite+pysqlcipher://:***@/kept.db",
    "sqlite:///some folder/kept@home.db": "sqlite:///some folder/kept@home.db",
    "postgresql:/me:hunter2@host/db": "***",
    "postgresql//me:hunter2@host/db": "***",
    "postgresql:me:hunter2": "***",
    "me:hunter2@host/db": "***",
    "C:\\studies\\plays.db": "C:\\studies\\plays.db",
    "/studies/plays.db": "/studies/plays.db",
}


@pytest.mark.parametrize(("storage", "shown"), SHOWN.items(), ids=range(len(SHOWN)))
def test_only_harmless_parts_are_shown(storage, shown):
    assert hide_password(storage) == shown


@pytest.mark.parametrize(
    "storage",
    [
        *(url for url in SHOWN if url.startswith(("postgresql", "me:"))),
        "postgresql+nosuch://me:hunter2@host/db",
        "mysql+nosuch://me@host/db?passwd=hunter2",
        "sqlite://me:hunter2@host/db",
        "sqlite+nosuch:///db?key=hunter2",
        "postgresql://me:hunter2@host:99999999/db",
        "POSTGRESQL://me:hunter2@host/db",
        "://me:hunter2@host/db",
    ],
)
def test_a_url_that_cannot_be_used_is_one_sentence_without_its_password(storage):
    with pytest.raises((DataError, ArgumentError)) as refused:
        tuned(storage=storage)
    message = str(refused.value)
    assert "hunter2" not in message
    assert "ter2" not in message
    assert "\n" not in message
    assert "--storage" in message or "pip" in message


@pytest.mark.parametrize("secret", ["hunter2", "h2", "pass word", "päß", "p@ss", "a+b"])
def test_what_a_driver_says_is_shown_without_the_password(secret, monkeypatch, tmp_path):
    from urllib.parse import quote

    from spherec.lab.tuning import storage as module

    def fails(*_, **__):
        raise ValueError(f"bad dsn: password={secret} (raw {quote(secret)}) for {url}")

    monkeypatch.setattr(module.optuna.storages, "RDBStorage", fails)
    url = f"sqlite:///{tmp_path}/kept.db?key={quote(secret)}"
    with pytest.raises(DataError) as refused:
        tuned(storage=url)
    assert f"password={secret}" not in str(refused.value)
    assert f"raw {quote(secret)}" not in str(refused.value)
    assert f"={quote(secret)}" not in str(refused.value)
    assert "bad dsn: " in str(refused.value)


@pytest.mark.parametrize("name", ["a?b.db", "a%41.db", "a{b}.db", "{SCHEMA_VERSION}.db", "a#b;c.db", ":memory:"])
def test_a_study_is_in_the_file_of_that_very_name(name, tmp_path):
    tuned(trials=1, storage=tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_password_in_braces_is_no_template():
    with pytest.raises(DataError) as refused:
        tuned(storage="postgresql+nosuch://me:{hunter2}@host/db")
    assert "hunter2" not in str(refused.value)
