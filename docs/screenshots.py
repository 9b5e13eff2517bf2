"""Take the pictures in docs/images/ from a running UI: make demo, make dev, then this with the UI's address.

Needs the packages playwright (PyPI) and chromium (Debian); neither is a dependency of the project.
"""

import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).resolve().parent / "images"
CHROMIUM = "/usr/bin/chromium"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PAGES = {
    "asset_graph": ("/asset-groups", 1000),
    "asset_lineage": ("/assets/disruptions?view=lineage&lineageScope=upstream&lineageDepth=10", 1000),
    "asset_page": ("/assets/route_map", 1900),
    "asset_check": ("/assets/route_map?view=checks", 1000),
}


def main(address: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        for name, (path, height) in PAGES.items():
            page = browser.new_context(viewport={"width": 1600, "height": height}).new_page()
            _take(page, address.rstrip("/") + path, IMAGES / f"{name}.png")
        browser.close()


def _take(page: Page, url: str, picture: Path) -> None:
    page.goto(url)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(5000)  # the graph is laid out by a worker after everything has loaded
    page.screenshot(path=picture)
    print(picture)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:3000")
