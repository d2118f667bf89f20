"""The page in a real browser: it shows every network, opens and closes, finds, links, and never complains."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.author import load_module
from trtdsl.display.view.page import page as html

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
GALLERY = sorted(path.stem for path in (ROOT / "networks").glob("*.py") if path.stem != "llama")  # a user's weights


OVERLAPPING = """() => {
  const at = [...document.querySelectorAll('#graph .card .area')].map((area) => area.getBoundingClientRect());
  const apart = (a, b) => a.left > b.right - 1 || b.left > a.right - 1 || a.top > b.bottom - 1 || b.top > a.bottom - 1;
  return at.some((a, place) => at.slice(place + 1).some((b) => !apart(a, b)));
}"""

UNREADABLE = """() => {
  const found = [], seen = (e) => e.getClientRects().length && getComputedStyle(e).visibility !== 'hidden';
  for (const e of document.querySelectorAll('body *')) {
    const said = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!said || !seen(e)) continue;
    const scale = e.getScreenCTM ? e.getScreenCTM().a : 1, at = e.getBoundingClientRect();
    if (parseFloat(getComputedStyle(e).fontSize) * scale < 11.95) found.push('small: ' + e.textContent);
    if (!e.closest('svg') && (at.right > innerWidth + 1 || at.left < -1)) found.push('outside: ' + e.textContent);
  }
  for (const e of document.querySelectorAll('button, input, select'))
    if (seen(e) && !(e.textContent.trim() || e.getAttribute('aria-label') || e.placeholder || e.closest('label')))
      found.push('unlabelled: ' + e.outerHTML);
  return found;
}"""


@pytest.fixture(scope="session")
def browser():
    pytest.importorskip("playwright")
    with load_module(ROOT / "tools/view/browser.py").open_browser() as opened:
        if opened is None:
            pytest.skip("no Chromium here: apt-get install chromium-headless-shell, or playwright install chromium")
        yield opened


@pytest.fixture
def show(browser, tmp_path):
    """Opens a view; at the end there must have been no complaint and no request but for the file itself."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, offline=True)
    context.set_default_timeout(10_000)
    complaints, asked = [], []

    def opened(view):
        file = tmp_path / "view.html"
        file.write_text(view.html, encoding="utf-8")
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=20_000)
        return page

    yield opened
    context.close()
    assert complaints == []
    assert {url.rpartition("/")[2] for url in asked} <= {"view.html"}


def gallery(name):
    """A network of the gallery with its reference's fresh weights, since their values are not shown."""
    spec = td.load_spec(str(ROOT / "networks" / f"{name}.py"))
    return spec.define(weights=spec.reference_module(None).state_dict())


def boxes(page):
    return page.locator("#graph [data-i]").count()


def labels(page):
    return page.locator("#graph .box:not(.frame) .label").all_text_contents()


@pytest.mark.parametrize("name", GALLERY)
def test_every_network_of_the_gallery(show, name):
    view = td.view(gallery(name))
    assert len(view.html) < 5_000_000
    page = show(view)
    assert page.locator("h1").text_content() == view.model["name"]
    for width in (800, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.reload()
        page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=20_000)
        assert page.evaluate(UNREADABLE) == []
    page.locator("[data-do=close]").click()
    folded = boxes(page)
    assert folded == sum(item["parent"] == 0 and not item.get("aside") for item in view.model["network"]["items"])
    page.locator("[data-do=open]").click()
    shown = [item for item in view.model["network"]["items"][1:] if not item.get("aside")]
    assert folded < boxes(page) <= len(shown)
    overlapping = page.evaluate(OVERLAPPING)
    assert not overlapping


def test_a_module_opens_and_closes_by_clicking(show):
    page = show(td.view(gallery("stgcn")))
    page.set_viewport_size({"width": 1440, "height": 1600})  # the whole of what is opened
    page.locator("[data-do=close]").click()
    page.locator(".card.module", has_text="st_gcn_networks").click()
    before = labels(page)
    page.locator(".card", has_text="st_gcn_networks.4").click()
    new = set(labels(page)) - set(before)
    assert new and "tcn" in {label.partition(".")[0] for label in new}
    assert page.locator("aside h2").text_content() == "st_gcn_networks.4"
    assert page.locator("#crumbs .link").all_text_contents() == ["stgcn", "st_gcn_networks", "st_gcn_networks.4"]
    page.locator(".frame .head", has_text="st_gcn_networks.4").click()
    assert labels(page) == before


def test_a_layer_is_found_and_shown_with_its_code(show):
    page = show(td.view(gallery("stgcn")))
    page.keyboard.press("/")
    page.keyboard.type("networks.7 tcn conv2d")
    page.keyboard.press("Enter")
    assert page.locator(".selected .label").text_content() == "tcn.2.conv2d"
    aside = page.locator("aside")
    assert "st_gcn_networks.7.tcn.2" in aside.text_content()
    assert "2*N × 256 × 75 × 18" in aside.text_content()  # the fourth and the seventh block halve the frames
    assert "F.conv2d(x, conv.weight, conv.bias" in page.locator(".code .here").text_content()
    assert "st_gcn_networks.7.tcn.2.weight" in page.locator(".weight").all_text_contents()


def test_a_launch_lights_its_calls_up_and_back(show):
    net = td.Network("two")
    x = net.input("x", (64, 128))
    y = F.softmax(F.matmul(x, net.constant(torch.randn(128, 32))), 1)
    net.output(F.matmul(y, net.constant(torch.randn(32, 256))), "y")
    page = show(td.view(net, build=True))
    page.keyboard.press("2")
    rows = page.locator("tr[data-launch]")
    assert rows.count() == len(td.program(net).launches)
    rows.first.click()
    page.get_by_text("Show in the network").click()
    lit = page.locator(".box.lit .label").all_text_contents()
    assert lit and set(lit) <= {"matmul", "softmax"}
    page.locator(".box.lit").first.click()
    page.locator("aside [data-launch]").first.click()
    assert page.locator("#program").is_visible() and page.locator("tr.selected").count() == 1


def test_the_table_of_launches_is_sorted_by_a_click(show):
    net = td.Network()
    x = net.input("x", (8, 8))
    for size in (64, 8, 256):
        x = F.matmul(x, net.constant(torch.randn(int(x.shape[1]), size)))
    net.output(x, "y")
    page = show(td.view(net, build=True))
    page.locator("[data-tab=program]").first.click()
    page.locator("th.moved").click()
    view = td.view(net, build=True).model["program"]["launches"]
    order = sorted(range(len(view)), key=lambda index: (-view[index]["moved"], -index))
    assert [int(text) for text in page.locator("tbody .index").all_text_contents()] == order


def test_the_keyboard_walks_opens_and_zooms(show):
    page = show(td.view(gallery("vit")))
    page.locator(".card.input").click()
    page.keyboard.press("ArrowDown")
    below = page.locator("aside h2").text_content()
    page.keyboard.press("ArrowUp")
    assert page.locator("aside h2").text_content() == "x" != below
    transform = page.locator(".world").get_attribute("transform")
    page.keyboard.press("+")
    assert page.locator(".world").get_attribute("transform") != transform
    page.keyboard.press("c")
    folded = boxes(page)
    page.keyboard.press("e")
    assert boxes(page) > folded
    page.keyboard.press("Escape")
    assert page.locator(".selected").count() == 0


def test_the_error_is_a_colour(show, small):
    file = small / "small.py"
    file.write_text(file.read_text().replace("F.relu(", "F.tanh("))
    page = show(td.view(file, check=True))
    assert page.locator("#colour").input_value() == "error"
    styles = {card.text_content(): card.get_attribute("style") for card in page.locator(".card").all()}
    (tanh,) = [style for text, style in styles.items() if text.startswith(("tanh", "bn.tanh"))]
    assert tanh == "--own:var(--bad)"
    assert page.locator("aside .bad").count() == 1
    page.locator("aside .link", has_text="tanh").click()
    assert "torch" in page.locator("aside .state").text_content()


def test_loops_and_branches_are_drawn_as_such(show):
    net = td.Network()
    x, which = net.input("x", (3,)), net.input("which", (), "bool")

    def looped(x):
        return td.while_loop(lambda s: s.sum() < 10, lambda s: (s * 2,), (x,))[0]

    net.output(td.cond(which, looped, lambda x: F.neg(x), (x,)), "y")
    page = show(td.view(net))
    page.locator("[data-do=open]").click()
    assert page.locator(".frame.conditional").count() == 1 and page.locator(".frame.branch").count() == 2
    assert page.locator(".frame.branch .note").count() == 0 and page.locator(".frame.loop").count() == 1
    assert "while a condition holds" in page.locator(".frame.loop").text_content()
    assert page.locator(".edge.back").count() == 1


def test_names_are_never_markup(show):
    odd = "<img src=x onerror=window.hacked=1></script>&amp;\"'层"
    net = td.Network(odd)
    with net.scope(odd.replace(".", "")):
        x = F.relu(F.exp(net.input("输入", ("N", 3))))
    net.output(x, odd)
    page = show(td.view(net))
    assert page.title() == f"{odd} · trtdsl view"
    assert "输入" in labels(page) and page.evaluate("window.hacked") is None and page.locator("img").count() == 0
    page.locator("#search").fill("输入")
    assert page.locator("#found b").first.text_content() == "输入"


def test_very_large_networks_stay_folded(show):
    net = td.Network("large")
    x = net.input("x", (2, 2))
    for name in (f"wide.m{index}" for index in range(800)):
        x = F.matmul(x, net.constant(torch.eye(2), source=f"{name}.weight"))
    for _ in range(4000):
        x = F.exp(x)
    net.output(x, "y")
    page = show(td.view(net))
    assert boxes(page) < 150
    page.locator(".card.module").first.click()
    assert boxes(page) < 200
    page.locator("[data-do=open]").click()
    assert 1000 < boxes(page) <= 2600 and "stays folded" in page.locator("#note").text_content()


def test_pages_of_an_engine_alone_and_of_an_empty_network(show, tmp_path, small):
    engine = tmp_path / "small.engine"
    td.build(small / "small.py", engine, check=False)
    page = show(td.view(engine))
    assert page.locator("tr[data-launch]").count() > 0 and page.locator("[role=tab]").count() == 1
    assert "scores" in page.locator("aside").text_content()
    page.locator("tr[data-launch]").first.click()
    assert "launch 0 of" in page.locator("aside").text_content()
    assert show(td.view(td.Network("empty"))).locator("h1").text_content() == "empty"


def test_a_page_has_a_light_and_a_dark_scheme(browser, tmp_path):
    net = td.Network()
    net.output(F.exp(net.input("x", (3,))), "y")
    file = td.view(net).save(tmp_path / "v.html")
    colours = set()
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.goto(file.as_uri())
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.close()
    assert len(colours) == 2


def test_the_frame_of_a_notebook(browser, tmp_path):
    net = td.Network("inline")
    net.output(F.exp(net.input("x", (3,))), "y")
    (tmp_path / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8>{td.view(net)._repr_html_()}")
    page = browser.new_page()
    page.goto((tmp_path / "notebook.html").as_uri())
    frame = page.frame_locator("iframe")
    assert frame.locator("h1").text_content() == "inline"
    assert json.loads(frame.locator("#model").text_content())["name"] == "inline"
    page.close()


def test_a_picture_larger_than_the_window_is_readable_and_has_a_map(show):
    page = show(td.view(gallery("raft_small")))
    size = (
        "() => Math.min(...[...document.querySelectorAll('#graph text')].map((t) => t.getBoundingClientRect().height))"
    )
    for _ in range(3):
        page.locator("[data-do=more]").click()
        assert round(page.evaluate(size), 1) >= 12
    seen = page.locator(".map .seen")
    before = seen.get_attribute("y")
    box = page.locator(".map").bounding_box()
    assert max(box["width"] / 240, box["height"] / 190) > 0.95, "as large as it may be in a window of this size"
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] - 5)
    assert float(seen.get_attribute("y")) > float(before)
    page.set_viewport_size({"width": 800, "height": 900})
    box, graph = page.locator(".map").bounding_box(), page.locator("#graph").bounding_box()
    assert 0 < box["width"] * box["height"] < graph["width"] * graph["height"] / 16, "it lies on a corner alone"


def test_expanding_opens_one_level_at_a_time(show):
    page = show(td.view(gallery("vit")))
    counts = [boxes(page)]
    page.locator("[data-do=more]").click()
    counts.append(boxes(page))
    page.locator("[data-do=open]").click()
    counts.append(boxes(page))
    assert counts == sorted(set(counts))


@pytest.mark.parametrize("width", [1440, 800])
def test_a_program_is_readable_and_names_are_whole(show, width):
    page = show(td.view(gallery("raft_small"), build=True))
    page.set_viewport_size({"width": width, "height": 900})
    page.locator("[data-tab=program]").first.click()
    assert page.evaluate(UNREADABLE) == []
    cut = "(cells) => cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent)"
    assert page.locator(".launches td").evaluate_all(cut) == []


@pytest.mark.parametrize("width", [1400, 800])
def test_the_legend_covers_no_part_of_the_graph(show, width):
    page = show(td.view(gallery("stn")))
    page.set_viewport_size({"width": width, "height": 900})
    graph, foot = page.locator("#graph").bounding_box(), page.locator(".foot").bounding_box()
    assert graph["y"] + graph["height"] <= foot["y"] + 1 and graph["height"] > 500


def places(value, path=()):
    """The paths of a model's leaves, with every list as one place; and whether each is text everywhere."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from places(child, (*path, key))
    elif isinstance(value, (list, tuple)):
        for child in value:
            yield from places(child, (*path, "*"))
    else:
        yield path, isinstance(value, str)


def put(value, paths):
    """The value with text at the paths that would be markup, and says where it stood."""
    if () in paths:
        return f"x\" data-hostile={paths[()]} '<b data-hostile={paths[()]}>y</b>"
    if isinstance(value, dict):
        return {key: put(child, _within(paths, key)) for key, child in value.items()}
    return [put(child, _within(paths, "*")) for child in value] if isinstance(value, (list, tuple)) else value


def _within(paths, key):
    return {path[1:]: number for path, number in paths.items() if path[:1] == (key,)}


def test_no_field_of_a_model_becomes_markup(browser, small):
    """Fields are text that would be markup; what shows them is opened.

    All at once; where the script fails, since a number is text, in halves, and so each field until it does not.
    """
    program = td.view(small / "small.py", build=True, check=True).model
    engine = {**program, "network": None, "check": None, "engine": {
        "file": "f", "bytes": 3, "manifest": True, "capabilities": ["8.6"], "check": "passed",
        "inputs": {"x": {"dtype": "float32", "shape": ["N", 3]}}, "outputs": {"y": {"dtype": "float32", "shape": [1]}},
    }}  # fmt: skip
    page, failures, shown = browser.new_page(), [], set()
    page.on("pageerror", lambda error: failures.append(error))

    def hostile(model, fields):
        """The fields that became markup."""
        failures.clear()
        page.set_content(html(put(model, {field: number for number, field in enumerate(fields)})))
        page.evaluate("""() => {
            for (const name of ["[data-tab=program]", "[data-launch]", "tr[data-launch]", "[data-tab=network]",
                                "[data-do=open]", ".card", "#found", "[data-show]"])
                try { for (const each of [...document.querySelectorAll(name)].slice(0, 4))
                    each.dispatchEvent(new MouseEvent("click", {bubbles: true})); } catch (error) { }
        }""")
        found = page.evaluate("[...document.querySelectorAll('[data-hostile]')].map(each => each.dataset.hostile)")
        if found or not failures or len(fields) == 1:
            text = page.evaluate("document.body.innerHTML")
            shown.update(field for number, field in enumerate(fields) if f"data-hostile={number} " in text)
            return [".".join(fields[int(number)]) for number in found]
        half = len(fields) // 2
        return hostile(model, fields[:half]) + hostile(model, fields[half:])

    for model in (program, engine):
        fields = {place: text for place, text in places(model) if model is program or place[0] != "program"}
        texts = [place for place in sorted(fields) if fields[place]]
        assert hostile(model, texts) == []
        assert hostile(model, sorted(fields.keys() - set(texts))) == []
    assert len(shown) > 30  # which did reach the page
    page.close()


def test_the_policy_runs_this_script_alone(browser, small):
    page = browser.new_page()
    page.set_content(html(td.view(small / "small.py").model))
    page.evaluate("""() => {
        document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.hacked = 1'>");
        const script = document.createElement("script"), style = document.createElement("style");
        script.textContent = "window.hacked = 2"; style.textContent = "body { margin: 77px }";
        document.body.append(script, style);
    }""")
    page.wait_for_timeout(100)
    assert page.evaluate("[window.hacked, getComputedStyle(document.body).margin]")[0] is None
    assert page.evaluate("getComputedStyle(document.body).margin") != "77px"
    page.close()


def test_the_policy_names_what_the_page_holds():
    """Without a browser: script and style are allowed by the hashes of their very text, and nothing else is."""
    text = html({"name": "</script><script>1</script>"})
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    (script,), (style,) = (
        re.findall(r"<script>(.*?)</script>", text, re.DOTALL),
        re.findall("<style>(.*?)</style>\n</head>", text, re.DOTALL),
    )
    for directive, held in (("script-src", script), ("style-src-elem", style)):
        digest = base64.b64encode(hashlib.sha256(held.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'") and "script-src 'unsafe" not in policy


def test_a_page_without_a_model_opens_a_view_that_was_saved(browser, tmp_path, small):
    view, complaints = td.view(small / "small.py"), []
    (tmp_path / "open.html").write_text(html({"name": "a saved view"}))
    (tmp_path / "other.json").write_text('{"kind": "check"}')
    for file in (tmp_path / "view.json", tmp_path / "view.html"):
        view.save(file)
        page = browser.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((tmp_path / "open.html").as_uri())
        page.locator("input[type=file]").set_input_files(tmp_path / "other.json")
        page.wait_for_selector("text=other.json is no view of trtdsl")
        page.locator("input[type=file]").set_input_files(file)
        page.wait_for_selector("html[data-ready=yes]", state="attached")
        assert page.title() == "small · trtdsl view" and page.locator(".card.input").count() == 1
        page.close()
    assert complaints == []


def test_a_program_has_an_axis_and_only_the_columns_that_say_something(show):
    net = td.Network()
    net.output(F.relu(net.input("x", (8, 8))), "y")
    page = show(td.view(net, build=True))
    page.locator("[data-tab=program]").first.click()
    assert page.locator(".axis span").count() == 5 and page.locator(".axis span").first.text_content() == "0"
    assert page.locator(".launches th.stream, .launches th.times").count() == 0  # one stream, each launch once
    sizes = page.evaluate(
        "[...document.querySelectorAll('body *')].map((e) => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 12


def test_a_narrow_page_cuts_neither_the_kinds_nor_their_legend(show):
    net = td.Network()
    x = net.input("x", (2, 64, 8, 8))
    y = F.softmax(F.max_pool2d(F.conv2d(F.relu(x), torch.ones(64, 64, 3, 3)), 2).flatten(1) @ torch.ones(576, 64), 1)
    net.output(y.cumsum(1), "y")
    net.output(torch.ones(2, 64) * F.flip(x.transpose(1, 2), (0,)).mean((1, 3)), "z")
    page = show(td.view(net, build=True))
    page.set_viewport_size({"width": 800, "height": 700})
    page.locator("[data-tab=program]").first.click()
    end = "document.querySelector('.timeline svg').getBoundingClientRect().right + 1"
    cut = f"(e) => e.scrollWidth > e.clientWidth || e.getBoundingClientRect().right > {end}"
    kinds = "[...document.querySelectorAll('.timeline .key, .launches td.kind')]"
    assert page.locator(".timeline .key").count() >= 5
    assert page.evaluate(f"{kinds}.filter({cut}).map((e) => e.textContent)") == []
    ends = page.locator(".axis span").all_text_contents()[1:]
    assert len({end.split("\u202f")[1] for end in ends}) == 1


def test_a_long_path_stands_in_one_line_beside_the_picture_of_a_narrow_page(show):
    page = show(td.view(gallery("raft_small")))
    page.set_viewport_size({"width": 800, "height": 900})
    page.keyboard.press("/")
    page.keyboard.type("context_encoder.layer2.1.convnormrelu1.0 conv2d")
    page.keyboard.press("Enter")
    crumbs = page.locator("#crumbs .link")
    assert crumbs.count() > 4
    assert set(crumbs.evaluate_all("links => links.map(each => each.getClientRects().length)")) == {1}
    assert len(set(crumbs.evaluate_all("links => links.map(each => each.getBoundingClientRect().top)"))) == 1
    row, last, picture = (
        page.locator(each).bounding_box() for each in ("#crumbs", "#crumbs .link >> nth=-1", "#graph")
    )
    assert row["y"] + row["height"] <= picture["y"]
    assert row["x"] <= last["x"] and last["x"] + last["width"] <= row["x"] + row["width"]
    heading = page.locator("aside h2")
    assert heading.evaluate("each => each.innerHTML.includes('.<wbr>')") and "." in heading.text_content()


SEEN = """() => {
  const inside = (a, b) => a.left < b.right && a.right > b.left && a.top < b.bottom && a.bottom > b.top;
  const graph = document.querySelector('#graph').getBoundingClientRect();
  const boxes = [...document.querySelectorAll('#graph .box')];
  const seen = boxes.filter((box) => inside(box.querySelector('.area').getBoundingClientRect(), graph));
  return seen.map((box) => box.querySelector('.label').textContent);
}"""


def test_expanding_keeps_in_sight_what_one_looked_at(show):
    page = show(td.view(gallery("raft_small")))
    page.set_viewport_size({"width": 800, "height": 900})
    page.locator("[data-do=close]").click()
    for _ in range(3):
        before = page.evaluate(SEEN)
        page.locator("[data-do=more]").click()
        assert {"context_encoder", "update_block"}.intersection(before, page.evaluate(SEEN))


CONTRAST = """() => [...document.querySelectorAll('.buttons button, #program button')].map((button) => {
  const parts = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (text) => parts(text).map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
  const { color, backgroundColor } = getComputedStyle(button);
  const [low, high] = [light(color), light(backgroundColor)].sort((a, b) => a - b);
  return { said: button.textContent, contrast: (high + 0.05) / (low + 0.05), back: backgroundColor };
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_buttons_are_told_from_the_boxes_beneath_them_in_each_scheme(browser, tmp_path, small, scheme):
    file = tmp_path / "view.html"
    file.write_text(td.view(small / "small.py").html, encoding="utf-8")
    page = browser.new_page(color_scheme=scheme)
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready=yes]", state="attached")
    card = page.locator(".card.call .area").first.evaluate("(area) => getComputedStyle(area).fill")
    found = page.evaluate(CONTRAST)
    assert {"All", "Fit"} <= {each["said"] for each in found}
    assert [each for each in found if each["contrast"] < 7 or each["back"] == card] == []
    page.close()


def test_a_calls_own_loops_open_with_it(show):
    net = td.Network("speech", profiles=[td.Profile(T=(1, 5, 8))])
    weights = [net.constant(weight.detach()) for weight in torch.nn.GRU(4, 3, num_layers=2).parameters()]
    x, first = net.input("x", ("T", 2, 4)), net.input("h", (2, 2, 3))
    net.output(F.gru(x, first, weights, True, 2, 0.0, False, False, False)[0], "y")
    page = show(td.view(net))
    assert set(labels(page)) == {"x", "h", "gru", "y"}
    page.locator("[data-do=more]").click()
    assert {"↻ layer 0", "↻ layer 1"} <= set(labels(page)) and labels(page).count("gru") == 0
    page.locator(".card.loop").first.click()
    assert page.locator("aside .sub").text_content() == "× T = 5"
    page.locator("aside section", has_text="Reads").locator(".link").first.click()
    assert page.locator("aside h2").text_content() == "gru"
    assert page.locator("aside .layer").count() == sum(each.call.name == "gru" for each in net.layers.values())
    assert not page.evaluate(OVERLAPPING)


def test_a_sum_in_a_shape_stands_in_parentheses(show):
    net = td.Network("wide")
    width = td.Dim("W", min=4, opt=8, max=16)
    x = net.input("x", ("N", 2 * (width + 1), 3))
    net.output(F.pad(x, (0, 0, 1, 0)), "y")
    page = show(td.view(net))
    assert "(2*W + 3) × 3" in page.locator("aside .tensor", has_text="y").text_content()
    assert "N × (2*W + 2) × 3" in page.locator(".card", has_text="x").first.text_content()


def test_a_page_has_one_count_of_flops_one_spelling_of_a_file_and_says_what_is_overhead(show):
    net = td.Network("one", profiles=[td.Profile(N=(1, 4, 8))])
    x = net.input("x", ("N", 64))
    net.output(F.softmax(F.relu(F.linear(x, net.constant(torch.randn(32, 64)))), 1), "y")
    page = show(td.view(net, build=True))
    counted = page.locator("aside dd").nth(1).text_content()
    page.keyboard.press("2")
    tile = page.locator(".tile", has_text="FLOPs")
    assert tile.locator("b").text_content() == counted and "of the network's layers" in tile.text_content()
    assert "of the launches take the minimum of 2.0\u202fµs" in page.locator(".tile", has_text="floor").text_content()
    rows = page.locator("tr[data-launch]")
    places = {each.location.short for each in net.layers.values()}
    assert {text.partition(" ")[0] for text in rows.locator("td.line").all_text_contents()} <= places
    rows.first.click()
    assert f"launch 0 of 0 … {rows.count() - 1}" in page.locator("aside").text_content()
    assert "a launch's overhead" in page.locator("aside").text_content()


def test_a_call_with_several_results_says_so(show):
    net = td.Network("several")
    values, places = F.sort(net.input("x", (2, 8)), 1)
    net.output(values, "values")
    net.output(places, "places")
    assert "2 × 8 and 1 more" in show(td.view(net)).locator(".card.call").first.text_content()
