"""A server of a small model, and Chromium. Tests are skipped where either is missing."""

import shutil
from urllib.parse import urlsplit

import pytest

from tests.recommender.models import model_of, small

REMEDY = "needs Chromium and playwright: apt install chromium; pip install '.[serve,browser]'"
ITEMS = [f"i{n}" for n in range(60)]
NAMES = {item: f"The book {item} — Zoë Author{n % 3}" for n, item in enumerate(ITEMS)}
NAMES["i7"] = "<img src=x onerror=alert(1)> & co"


@pytest.fixture(scope="session")
def model():
    """A model with reach and names."""
    return model_of(small(items=ITEMS, density=0.2).with_item_names(NAMES), mainstream=0.4)


@pytest.fixture(scope="session")
def serve(tmp_path_factory):
    """Serve a model; the address and the file."""
    pytest.importorskip("fastapi", reason=REMEDY)
    from contextlib import ExitStack

    from spherec.serve import ServeOptions
    from tests.serve.running import in_thread

    with ExitStack() as servers:

        def start(model, **options):
            file = tmp_path_factory.mktemp("page") / "model.spherec"
            model.save(file)
            settings = ServeOptions(file, log_requests=False, watch_seconds=0.05, **options)
            return servers.enter_context(in_thread(settings)), file

        yield start


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """A table of the items: two genres, years, and addresses of pictures on two hosts."""
    hosts = ("pictures.example", "elsewhere.example")
    rows = [
        f"{item},{'crime' if n % 3 else 'poems'},{1950 + n // 3},https://{hosts[n % 2]}/{n}.svg"
        for n, item in enumerate(ITEMS)
    ]
    file = tmp_path_factory.mktemp("items") / "items.csv"
    file.write_text("\n".join(["id,genre,year,cover", *rows]) + "\n")
    return file


@pytest.fixture(scope="session")
def address(serve, model):
    """The address of a server of the model."""
    return serve(model)[0]


@pytest.fixture(scope="session")
def browser():
    """Chromium, as the system has it."""
    playwright = pytest.importorskip("playwright.sync_api", reason=REMEDY)
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip(REMEDY)
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, address):
    """Open an address of the page; at the end there must have been no error and no request to another host."""
    contexts, errors, hosts = [], [], set()

    def open_page(place="", *, at=None, size=(1280, 800), expected=(), **options):
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: errors.append(str(error)))

        def note_console(message):
            if message.type in ("error", "warning") and not any(part in message.text for part in expected):
                errors.append(message.text)

        page.on("console", note_console)
        page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
        page.goto(f"{at or address}/{place}")
        page.wait_for_selector("#view h1, dialog[open], #notice:not([hidden])")
        open_page.host = urlsplit(at or address).netloc
        return page

    open_page.others = ()
    yield open_page
    for context in contexts:
        context.close()
    assert not errors
    assert hosts <= {open_page.host, *open_page.others}


@pytest.fixture
def settled():
    """Wait until the map is drawn and the view rests."""

    def wait(page):
        page.wait_for_selector("#map[data-milliseconds]", state="attached", timeout=60_000)  # it is drawn by a process
        page.wait_for_selector("#panel:not([aria-busy])")
        page.wait_for_timeout(900)  # a flight of the map
        return page

    return wait
