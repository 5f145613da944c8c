"""`spherec serve`: answer over HTTP, and show a page."""

from functools import partial
from pathlib import Path

from spherec.cli._options import ModelPath, group, option
from spherec.cli._output import note
from spherec.ranking.index_file import find_index

_network = partial(option, panel="Network")
_limit = partial(option, metavar="N", panel="Limits")


@group
class NetworkOptions:
    """Options about who asks and who answers."""

    host: str = _network("0.0.0.0 listens on every network.", "ADDRESS", default="127.0.0.1")
    port: int = _network("Port; 0 takes a free one.", "N", default=8000)
    workers: int = _network("Processes, which share one copy of the model.", "N", default=1)
    threads: int | None = _network("Threads that rank, in each process. Default: one less than its cores.", "N")
    api_key_file: Path | None = _network("File of keys, one a line; others are not let in.", "FILE")
    queue: int = _limit("Lists that may wait; more are turned away with 503.", default=512)
    max_k: int = _limit("Largest k + offset.", default=1000)
    max_lists: int = _limit("Most lists in one request.", default=100)
    max_body: int = _limit("Largest request in bytes.", default=1 << 20)


def serve_command(
    model: ModelPath,
    network: NetworkOptions,
    index: bool = option("Answer through the index or indexes next to the model.", None, "--index", default=False),
    items: Path | None = option("Table of the items: filters of requests, columns on the page.", "FILE"),
    events: str | None = option(
        "Store events that are posted: a file of SQLite, or postgresql://…; they count for the user's next list.",
        "PLACE",
    ),
    event_kinds: str | None = option("Comma-separated kinds of events that count at once. Default: all.", "KINDS"),
    pictures: str | None = option("Addresses of pictures, and who may be asked for them: COLUMN=HOST,HOST.", "TEXT"),
    writable: bool = option("Let POST /items add items, and replace the file.", None, "--writable", default=False),
    log_requests: bool = option(
        "Write a line of JSON for each request.", None, "--log-requests/--no-log-requests", default=True
    ),
) -> None:
    """The page is at the address that is printed, the description of the API at /docs. A new model in the place of the
    file is picked up without a lost request. SIGTERM stops the server after its last answer. Examples:

    - spherec serve books.spherec
    - spherec serve books.spherec --index --items books.csv --host 0.0.0.0 --api-key-file keys.txt
    """
    from spherec.serve import ServeOptions, serve  # needs an extra, the help does not

    options = ServeOptions(
        model,
        index=find_index(model) if index else None,
        items=items,
        events=events,
        event_kinds=None if event_kinds is None else event_kinds.split(","),
        pictures=pictures,
        writable=writable,
        log_requests=log_requests,
        **vars(network),
    )
    serve(options, announce=lambda address: note(f"serving {model} at {address} (the page), {address}/docs (the API)"))
