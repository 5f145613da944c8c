"""Storage of a study, so that it can be resumed: an SQLite file, or the database of a server that machines share."""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from spherec.data.files import refuse_unwritable
from spherec.errors import ArgumentError, DataError, quote
from spherec.experiments.tuning.package import SQLAlchemyError, optuna

_HEARTBEAT, _GRACE = 30, 120  # seconds between two heartbeats, and without one before a trial is given to another
_WAIT = 60  # seconds for another process to finish writing into an SQLite file
_RETRIES = 3
_IDENTITY = "spherec"


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
        known = study.user_attrs.get(_IDENTITY)
        if known is None and not study.get_trials(deepcopy=False):
            study.set_user_attr(_IDENTITY, dict(identity))
            return study
    except ImportError as error:  # optuna's own message does not name the package
        missing = _first_line(error.__cause__ or error)
        raise DataError(
            f"cannot open the study in {hide_password(storage)}: {missing}; install that database driver with pip"
        ) from None
    except (SQLAlchemyError, RuntimeError, optuna.exceptions.OptunaError) as error:
        raise DataError(
            f"cannot open the study in {hide_password(storage)}: {_first_line(error)}; check --storage"
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
                    f"the study in {hide_password(storage)} cannot be read or written any more: {_first_line(cause)}; "
                    "what it holds is kept, and the same command continues it"
                ) from None
        raise


def hide_password(storage: str | PathLike[str] | None) -> str:
    """Return the place without its password."""
    hidden = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", str(storage)) if storage else "memory"
    return re.sub(r"(password=)[^&]*", r"\1***", hidden)


def _storage(storage: str | PathLike[str] | None) -> "optuna.storages.BaseStorage | None":
    if storage is None:
        return None
    url = str(storage)
    if "://" not in url:
        refuse_unwritable(url)
        url = f"sqlite:///{Path(url).resolve()}"
    elif not url.startswith(("sqlite", "postgresql", "mysql", "mariadb")):
        raise ArgumentError(
            "--storage must be a file, or begin with sqlite:///, postgresql:// or mysql://, "
            f"got {quote(hide_password(url))}"
        )
    options = {"connect_args": {"timeout": _WAIT}} if url.startswith("sqlite") else {"pool_pre_ping": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # A trial whose process was killed waits until another process runs it again.
        again = optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=_RETRIES)
        return optuna.storages.RDBStorage(
            url,
            engine_kwargs=options,
            heartbeat_interval=_HEARTBEAT,
            grace_period=_GRACE,
            heartbeat_stale_trial_callback=again,
        )


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


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
