"""Storage of a study, so that it can be resumed: an SQLite file, or the database of a server that machines share."""

import re
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_plus

from spherec.data.output_files import refuse_unwritable
from spherec.errors import ArgumentError, DataError, SpherecError, quote
from spherec.lab.tuning.package import IntegrityError, NullPool, SQLAlchemyError, optuna

_HEARTBEAT, _GRACE = 30, 120  # seconds between two heartbeats, and without one before a trial is given to another
_WAIT = 60  # seconds for another process to finish writing into an SQLite file
_RETRIES = 3
_ATTEMPTS, _PAUSE = 5, 0.5  # to make the tables of a new database, if others do so at the same time; seconds between
_IDENTITY = "spherec"

_SYSTEM = re.compile(r"\w[\w+]*://", re.ASCII)
_SERVER = re.compile(
    r"(?P<system>\w[\w+]*://)((?P<user>[\w.%-]*)(:(?P<password>.*))?@)?"
    r"(?P<host>[\w.-]*|\[[\da-fA-F:.]+\])(:(?P<port>\d{1,5}))?(?P<database>/[\w.%-]*)?",
    re.ASCII,
)
_ALMOST_URL = re.compile(r"^\s*(sqlite|postgres|postgresql|mysql|mariadb)(\+\w+)?\s*(:|//)|:.*@", re.DOTALL)
_DELIMITERS = re.compile(r"[:/@?&=;,\s]+")
_SHORT = 3  # letters of a secret that is only hidden where it stands as a word


def open_study(
    storage: str | PathLike[str] | None,
    name: str,
    identity: Mapping[str, Any],
    sampler: "optuna.samplers.BaseSampler",
    pruner: "optuna.pruners.BasePruner",
) -> "optuna.Study":
    """Open or create the study of that name; raise an error if it belongs to other data or settings.

    `storage` is a file, a URL such as postgresql://…, or None for a study that ends with the process.
    """
    try:
        study = optuna.create_study(
            storage=_storage(storage),
            study_name=name,
            direction="maximize",
            load_if_exists=True,
            sampler=sampler,
            pruner=pruner,
        )
        has_trials = bool(study.get_trials(deepcopy=False))  # first: another machine sets the identity before any trial
        known = study.user_attrs.get(_IDENTITY)
        if known is None and not has_trials:
            study.set_user_attr(_IDENTITY, dict(identity))
            return study
    except SpherecError:
        raise
    except ImportError as error:  # optuna's own message does not name the package
        missing = _first_line(error.__cause__ or error, storage)
        raise DataError(
            f"cannot open the study in {hide_password(storage)}: {missing}; install that database driver with pip"
        ) from None
    except Exception as error:  # optuna, SQLAlchemy and each database driver have exceptions of their own
        raise DataError(
            f"cannot open the study in {hide_password(storage)}: {_first_line(error, storage)}; check --storage, which "
            "is a file, or a URL such as postgresql://user:password@host:5432/database"
        ) from None
    _refuse_other(study, known, identity, storage)
    return study


@contextmanager
def report_database_errors(storage: str | PathLike[str] | None) -> Iterator[None]:
    """Raise database errors inside this block as a one-line `DataError`."""
    try:
        yield
    except Exception as error:
        # While the end of a trial is written, optuna raises an error of its own instead.
        for cause in (error, error.__context__):
            if isinstance(cause, SQLAlchemyError | optuna.exceptions.StorageInternalError):
                raise DataError(
                    f"the study in {hide_password(storage)} cannot be read or written any more: "
                    f"{_first_line(cause, storage)}; what it holds is kept, and the same command continues it"
                ) from None
        raise


def hide_password(storage: str | PathLike[str] | None) -> str:
    """Return the place for messages and files, without what may be a password.

    Of a URL only those parts are shown that are what they should be: the name of the database system, the user, the
    host, the port if there is a user, and the database. Options after a question mark are hidden, because drivers take
    passwords there, too. If the URL has any other form, nothing of it is shown but the database system.
    """
    if storage is None:
        return "memory"
    url = str(storage)
    if not _looks_like_url(url):
        return url
    place, question, _ = url.partition("?")
    options = "?***" if question else ""
    if place.startswith("sqlite:///") and place.isprintable():
        return f"{place}{options}"
    match = _SERVER.fullmatch(place)
    if match is None:
        system = _SYSTEM.match(url)
        return f"{system[0]}***" if system else "***"
    parts = match.groupdict(default="")
    user = "" if match["user"] is None else f"{parts['user']}{':***' if parts['password'] else ''}@"
    port = "" if match["port"] is None else f":{parts['port'] if user else '***'}"  # may be user:password, no host
    return f"{parts['system']}{user}{parts['host']}{port}{parts['database']}{options}"


def _looks_like_url(text: str) -> bool:
    """Tell whether a storage is meant as a URL; one without its slashes must not be taken for a file and shown."""
    return "://" in text or _ALMOST_URL.search(text) is not None


def _scrub(message: str, storage: str | PathLike[str] | None) -> str:
    """Return a message of a database or its driver without the parts of the URL that `hide_password` hides."""
    url, shown = str(storage), hide_password(storage)
    if storage is None or url == shown:
        return message
    pieces = set(_DELIMITERS.split(url))
    if match := _SERVER.fullmatch(url.partition("?")[0]):
        pieces.add(match["password"] or "")
    pieces |= {value for piece in url.partition("?")[2].split("&") for value in piece.split("=", 1)[1:]}
    pieces |= {unquote_plus(piece) for piece in pieces} | {unquote(piece) for piece in pieces}
    secrets = pieces - set(_DELIMITERS.split(shown)) - {""}
    for secret in [url, *sorted(secrets, key=len, reverse=True)]:
        words = re.escape(secret) if len(secret) > _SHORT else rf"(?<!\w){re.escape(secret)}(?!\w)"
        message = re.sub(words, lambda _: "***", message)
    return message


def _storage(storage: str | PathLike[str] | None) -> "optuna.storages.BaseStorage | None":
    if storage is None:
        return None
    url = str(storage)
    if not _looks_like_url(url):
        refuse_unwritable(url)
        url = f"sqlite:///{str(Path(url).resolve()).replace('%', '%25').replace('?', '%3F')}"
    elif "://" not in url or not url.startswith(("sqlite", "postgresql", "mysql", "mariadb")):
        raise ArgumentError(
            f"--storage must be a file, or begin with sqlite:///, postgresql:// or mysql://, got {hide_password(url)}"
        )
    options: dict[str, Any] = {
        "poolclass": NullPool
    }  # connections are closed after each use, so that none is left when a study ends
    if url.startswith("sqlite"):
        options["connect_args"] = {"timeout": _WAIT}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        for _ in range(_ATTEMPTS - 1):
            try:
                return _open_database(url, options)
            except SQLAlchemyError as error:
                if not _is_being_made(error):
                    raise
            time.sleep(_PAUSE)
        return _open_database(url, options)


def _open_database(url: str, options: dict[str, Any]) -> "optuna.storages.RDBStorage":
    return optuna.storages.RDBStorage(
        url.replace("{", "{{").replace("}", "}}"),  # optuna takes it for a template
        engine_kwargs=options,
        heartbeat_interval=_HEARTBEAT,
        grace_period=_GRACE,
        # A trial whose process was killed waits until another process runs it again.
        heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=_RETRIES),
    )


def _is_being_made(error: SQLAlchemyError) -> bool:
    """Return whether the tables could not be made because another process is making them."""
    return isinstance(error, IntegrityError) or "already exists" in str(error)


def _refuse_other(
    study: "optuna.Study", known: Mapping[str, Any] | None, now: Mapping[str, Any], storage: str | PathLike[str] | None
) -> None:
    """Raise an error that names the first difference between the study and what is asked for now."""
    where = f"study {quote(study.study_name)} in {hide_password(storage)}"
    remedy = "give the same, or start another study with --study or --storage"
    if known is None:
        raise DataError(f"{where} was not made by spherec tune; name another with --study or --storage")
    # Studies of earlier versions name the number of pairs, too.
    known = {**known, "data": re.sub(r", \d+ pairs, checksum ", ", ", str(known.get("data")))}
    for name in sorted({*known, *now}):
        before, after = (facts.get(name, "not given") for facts in (known, now))
        if before != after:
            raise DataError(f"{where} cannot be continued: {name} was {before}, now it is {after}; {remedy}")


def _first_line(error: BaseException, storage: str | PathLike[str] | None) -> str:
    return _scrub((str(error).splitlines() or [type(error).__name__])[0], storage)
