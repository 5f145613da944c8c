"""`spherec serve`: answer over HTTP, and show a page."""

from pathlib import Path
from typing import Annotated

import typer

from spherec.cli._output import note
from spherec.cli.recommend import ModelPath

_NETWORK = "Network"
_LIMITS = "Limits"


def serve_command(
    model: ModelPath,
    index: Annotated[
        bool,
        typer.Option(
            "--index",
            help="Answer through the index next to the model: books.usearch for books.spherec, or the indexes of all "
            "parts, books.0-of-4.usearch and so on.",
        ),
    ] = False,
    items: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Table of the items (CSV, Parquet, JSON lines) whose columns requests filter by and the page shows.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 is every network.", rich_help_panel=_NETWORK)
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", rich_help_panel=_NETWORK)] = 8000,
    workers: Annotated[
        int, typer.Option(help="Processes that answer; they share one copy of the model.", rich_help_panel=_NETWORK)
    ] = 1,
    threads: Annotated[
        int | None,
        typer.Option(
            help="Threads that rank, in each process. Default: one less than the cores of a process.",
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of keys, one a line; only requests with one of them are answered.",
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    queue: Annotated[
        int,
        typer.Option(
            help="Lists that may wait; beyond that, requests are turned away with 503.", rich_help_panel=_LIMITS
        ),
    ] = 512,
    max_k: Annotated[int, typer.Option(help="Largest k + offset.", rich_help_panel=_LIMITS)] = 1000,
    max_lists: Annotated[int, typer.Option(help="Most lists in one request.", rich_help_panel=_LIMITS)] = 100,
    max_body: Annotated[int, typer.Option(help="Largest request in bytes.", rich_help_panel=_LIMITS)] = 1 << 20,
    writable: Annotated[
        bool,
        typer.Option("--writable", help="Let POST /items add items to a model with features, and replace its file."),
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
