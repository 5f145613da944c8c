"""Milliseconds that a frame of the page's map takes in Chromium while it is zoomed in and out.

    spherec serve books.spherec &
    python benchmarks/page_frames.py http://127.0.0.1:8000

Needs Chromium and playwright: `pip install '.[browser]'`.
"""

import argparse
import shutil
from typing import Any

from playwright.sync_api import sync_playwright

ZOOM = """async () => {
  const map = document.getElementById("map");
  const frames = [];
  for (let step = 0; step < 90; step += 1) {
    const box = map.getBoundingClientRect();
    const [clientX, clientY] = [box.left + box.width / 2, box.top + box.height / 2];
    map.dispatchEvent(new WheelEvent("wheel", { deltaY: step < 45 ? -60 : 60, clientX, clientY, cancelable: true }));
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    frames.push(Number(map.dataset.milliseconds));
  }
  return frames.sort((a, b) => a - b);
}"""


def main() -> None:
    """Print the median, the 95th percentile and the longest of 90 frames, for two densities of pixels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="Address of the server.")
    given = parser.parse_args()
    with sync_playwright() as playwright:
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for ratio in (1, 2):
            options: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}, "device_scale_factor": ratio}
            page = browser.new_context(**options).new_page()
            page.goto(given.address)
            page.wait_for_selector("#map[data-milliseconds]", timeout=300_000)
            page.wait_for_timeout(2000)
            frames = page.evaluate(ZOOM)
            median, high, most = frames[len(frames) // 2], frames[len(frames) * 95 // 100], frames[-1]
            print(f"pixel ratio {ratio}: median {median} ms, 95 % {high} ms, longest {most} ms")
        browser.close()


if __name__ == "__main__":
    main()
