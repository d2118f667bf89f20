"""The page's script and style are those that tools/view makes of its sources."""

import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
TOOL, MADE = ROOT / "tools/view", ROOT / "trtdsl/display/view"


def test_the_bundle_is_made_from_these_sources():
    names = [f"src/{path.name}" for path in sorted((TOOL / "src").iterdir())]
    digest = hashlib.sha256()
    for name in [*names, "build.mjs", "package.json", "package-lock.json"]:
        digest.update(name.encode() + b"\0" + (TOOL / name).read_bytes() + b"\0")
    for name in ("page.js", "page.css"):
        said = re.match(r"/\* trtdsl view ([0-9a-f]{64}):", (MADE / name).read_text())
        assert said and said[1] == digest.hexdigest(), (
            f"{name} is of other sources: cd tools/view && npm ci && npm run build"
        )


def test_versions_are_exact_and_no_registry_is_named():
    package = json.loads((TOOL / "package.json").read_text())
    for version in (package["dependencies"] | package["devDependencies"]).values():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    lock = (TOOL / "package-lock.json").read_text()
    assert "resolved" not in lock and "registry" not in lock


def test_the_licences_of_what_is_bundled_are_beside_it():
    text = (MADE / "LICENSES.txt").read_text()
    packages = json.loads((TOOL / "package-lock.json").read_text())["packages"]
    shipped = {
        name.removeprefix("node_modules/"): each for name, each in packages.items() if name and not each.get("dev")
    }
    assert set(shipped) == {"@dagrejs/dagre", "@dagrejs/graphlib"}
    for name, facts in shipped.items():
        assert f"{name} {facts['version']} ({facts['license']})" in text and facts["license"] == "MIT"
    assert text.count("Permission is hereby granted") == len(shipped)


def test_the_bundle_loads_nothing_from_the_network():
    script = (MADE / "page.js").read_text() + (MADE / "page.css").read_text()
    assert not re.search(r"\bfetch\(|XMLHttpRequest|import\(|@import|url\((?!#)|https?://(?!www\.w3\.org/)", script)
