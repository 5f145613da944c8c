"""`spherec serve`: answer over HTTP, and show a page."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from spherec.cli._output import note
from spherec.cli._settings import ModelPath

_network = partial(typer.Option, rich_help_panel="Network")
_limit = partial(typer.Option, rich_help_panel="Limits", metavar="N")


def serve_command(
    model: ModelPath,
    index: Annotated[
        bool, typer.Option("--index", help="Answer through the index, or the indexes of all parts, next to the model.")
    ] = False,
    items: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Table of the items, whose columns requests filter by and the page shows."),
    ] = None,
    host: Annotated[str, _network(metavar="ADDRESS", help="0.0.0.0 listens on every network.")] = "127.0.0.1",
    port: Annotated[int, _network(metavar="N", help="Port; 0 takes a free one.")] = 8000,
    workers: Annotated[int, _network(metavar="N", help="Processes, which share one copy of the model.")] = 1,
    threads: Annotated[
        int | None, _network(metavar="N", help="Threads that rank, in each process. Default: one less than its cores.")
    ] = None,
    api_key_file: Annotated[
        Path | None, _network(metavar="FILE", help="File of keys, one a line; others are not let in.")
    ] = None,
    queue: Annotated[int, _limit(help="Lists that may wait; more are turned away with 503.")] = 512,
    max_k: Annotated[int, _limit(help="Largest k + offset.")] = 1000,
    max_lists: Annotated[int, _limit(help="Most lists in one request.")] = 100,
    max_body: Annotated[int, _limit(help="Largest request in bytes.")] = 1 << 20,
    writable: Annotated[
        bool,
        typer.Option("--writable", help="Let POST /items add items to a model with features, and replace the file."),
    ] = False,
    log_requests: Annotated[
        bool, typer.Option("--log-requests/--no-log-requests", help="Write a line of JSON for each request.")
    ] = True,
) -> None:
    """Answer over HTTP from a model, and show it on a page.

    The page is at the address that is printed, the description of the API at /docs. A new model in the place of the
    file is picked up without a lost request. SIGTERM stops the server after its last answer. For example:

    - spherec serve books.spherec
    - spherec serve books.spherec --index --items books.csv --host 0.0.0.0 --api-key-file keys.txt
    """
    from spherec.ranking.index_file import find_index
    from spherec.serve import ServeOptions, serve

    options = ServeOptions(
        model,
        index=find_index(model) if index else None,
        items=items,
        host=host,
        port=port,
        workers=workers,
        threads=threads,
        api_key_file=api_key_file,
        queue=queue,
        max_k=max_k,
        max_lists=max_lists,
        max_body=max_body,
        writable=writable,
        log_requests=log_requests,
    )
    serve(options, announce=lambda address: note(f"serving {model} at {address} (the page), {address}/docs (the API)"))
