"""Take the pictures of docs/page.md from a running server: light, dark, a phone.

    spherec train book-crossing --preset accurate --dim 256 -o books.spherec
    spherec serve books.spherec &
    python scripts/page_screenshots.py http://127.0.0.1:8000

Needs Chromium, and playwright and pillow: `pip install '.[browser,plots]'`.
"""

import argparse
import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).parents[1] / "docs/images"
DESKTOP = {"width": 1360, "height": 800}
PHONE = {"width": 375, "height": 740}


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="Address of the server.")
    parser.add_argument("--user", default="247752", help="User to show.")
    parser.add_argument("--item", default="0380789035", help="Item to show.")
    parser.add_argument("--reader", default="0345339703,0439064872,0553573403", help="Items of the new reader.")
    parser.add_argument("-o", "--output", type=Path, default=IMAGES, help="Folder of the pictures.")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, address, scheme, size in (
            ("page-start", "", "light", DESKTOP),
            ("page-user", f"#user={given.user}", "light", DESKTOP),
            ("page-item", f"#item={given.item}", "dark", DESKTOP),
            ("page-reader", f"#reader={given.reader}", "light", DESKTOP),
            ("page-phone", f"#user={given.user}", "light", PHONE),
            ("page-phone-map", f"#user={given.user}", "dark", PHONE),
        ):
            with open_page(browser, f"{given.address}/{address}", scheme, size) as page:
                if name.endswith("-map"):
                    page.get_by_role("button", name="Map", exact=True).click()
                page.wait_for_timeout(2500)  # until the map rests and its names are there
                file = given.output / f"{name}.png"
                picture = Image.open(io.BytesIO(page.screenshot()))
                picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
                    file, optimize=True
                )
                print(f"{file} {file.stat().st_size // 1000} KB")
        browser.close()


@contextmanager
def open_page(browser: Browser, address: str, scheme: str, size: dict[str, int]) -> Iterator[Page]:
    """Open an address in a window of its own."""
    options: dict[str, Any] = {"viewport": size, "color_scheme": scheme}
    context = browser.new_context(**options)
    page = context.new_page()
    page.on("console", lambda message: print(f"  {message.type}: {message.text}"))
    page.on("pageerror", lambda error: print(f"  {error}"))
    page.goto(address)
    page.wait_for_selector("#map[data-milliseconds]", state="attached")
    yield page
    context.close()


if __name__ == "__main__":
    main()
