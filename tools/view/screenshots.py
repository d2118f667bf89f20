"""Makes the pictures of docs/view.md and of the gallery: networks and their programs, as a browser shows them.

    python tools/view/screenshots.py [--to FOLDER] [--weights FOLDER] [--gallery]

Weights that are not in the repository are made by tools/make_weights.py; a network without weights gets no picture.

Needs a Chromium (tools/view/browser.py says where it looks) and Pillow.
"""

import argparse
import io
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from browser import open_browser  # noqa: E402

import trtdsl as td  # noqa: E402

SIZE = {"width": 1440, "height": 860}


def raft(page):
    """The loop of RAFT, opened, and one of its calls."""
    page.locator("[data-do=close]").click()
    page.locator("[data-do=fit]").click()
    page.locator(".card.loop").click()
    page.keyboard.press("f")
    page.locator(".card.sampling", has_text="bilinear_sample").nth(1).click()


def stgcn(page):
    """The program of ST-GCN, with a launch and the lines that it comes from."""
    page.locator("[data-tab=program]").first.click()
    page.locator("tr[data-launch]").nth(6).click()
    page.locator("#program").evaluate("(element) => element.scrollTo(0, 0)")


PICTURES = {"view_network": ("raft_small", raft, "light"), "view_program": ("stgcn", stgcn, "dark")}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "images", metavar="FOLDER")
    parser.add_argument("--weights", type=Path, default=ROOT / "weights", metavar="FOLDER")
    parser.add_argument("--gallery", action="store_true", help="the pictures of the gallery, too")
    options = parser.parse_args()
    folder = options.to
    folder.mkdir(parents=True, exist_ok=True)
    with open_browser() as browser:
        if browser is None:
            sys.exit("no Chromium found: install one, or name it with TRTDSL_BROWSER")
        for name, (network, act, scheme) in PICTURES.items():
            made = td.view(str(ROOT / "networks" / f"{network}.py"), build=True)
            page = browser.new_page(viewport=SIZE, color_scheme=scheme, device_scale_factor=1.25)
            page.set_content(made.html)
            act(page)
            page.wait_for_timeout(200)
            write(page.screenshot(), folder / f"{name}.webp")
        for network in sorted((ROOT / "networks").glob("*.py")) if options.gallery else ():
            found = [each / f"{network.stem}.safetensors" for each in (ROOT / "weights", options.weights)]
            weights = next((file for file in found if file.is_file()), None)
            if weights is not None:
                page = browser.new_page(viewport={"width": 1280, "height": 760}, color_scheme="light")
                page.set_content(td.view(str(network), weights=weights).html)
                page.wait_for_timeout(200)
                write(page.screenshot(), folder / "gallery" / f"{network.stem}.webp")


def write(png, path):
    from PIL import Image

    path.parent.mkdir(exist_ok=True)
    Image.open(io.BytesIO(png)).convert("RGB").save(path, quality=82, method=6)
    print(path, f"{path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
