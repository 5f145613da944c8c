"""Frames of the page's map in Chromium while it is zoomed in and out: time to draw one, and time between two.

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
  const [drawn, between] = [[], []];
  const box = map.getBoundingClientRect();
  const [clientX, clientY] = [box.left + box.width / 2, box.top + box.height / 2];
  let last = await new Promise(requestAnimationFrame);
  for (let step = 0; step < 180; step += 1) {
    map.dispatchEvent(new WheelEvent("wheel", { deltaY: step < 90 ? -30 : 30, clientX, clientY, cancelable: true }));
    const now = await new Promise(requestAnimationFrame);
    drawn.push(Number(map.dataset.milliseconds));
    between.push(now - last);
    last = now;
  }
  return [drawn, between].map((times) => times.sort((a, b) => a - b));
}"""


def main() -> None:
    """Print the median, the 95th percentile and the longest of 180 frames, for two densities of pixels."""
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
            sharp = page.evaluate("Number(document.getElementById('map').dataset.milliseconds)")
            print(f"pixel ratio {ratio}: at rest {sharp} ms")
            for name, times in zip(("to draw a frame", "between frames"), page.evaluate(ZOOM), strict=True):
                median, high, most = times[len(times) // 2], times[len(times) * 95 // 100], times[-1]
                print(f"  {name}: median {median:.1f} ms, 95 % {high:.1f} ms, longest {most:.1f} ms")
        browser.close()


if __name__ == "__main__":
    main()
