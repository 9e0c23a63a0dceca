"""The report as people meet it: opened from disk in a real browser, looked at and clicked."""

import csv
import io
from pathlib import Path

import pytest
from PIL import Image

from statetrace.reports.page import write_report
from tests.browser.conftest import Opened
from tests.reports.test_geometry import seen

pytestmark = pytest.mark.browser

CONTRAST = """() => {
  // WCAG 2 contrast of every text against the nearest background that is not transparent.
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const box = element.getBoundingClientRect();
    if (!own || !box.width || ["SCRIPT", "STYLE", "OPTION"].includes(element.tagName)) continue;
    if (element.closest(".skip, [aria-hidden=true], .hoverlayer")) continue;
    const style = getComputedStyle(element);
    if (style.visibility === "hidden") continue;
    const drawn = element instanceof SVGElement;
    const ink = parse(drawn ? style.fill : style.color);
    let behind = element, paper = [0, 0, 0, 0];
    while (behind && (paper.length === 4 && paper[3] === 0)) {
      paper = parse(getComputedStyle(behind).backgroundColor);
      behind = behind.parentElement;
    }
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), element.textContent.trim().slice(0, 40)]);
  }
  return found;
}"""


def test_it_opens_from_disk_silently_and_asks_for_nothing(opened, report):
    assert opened.errors == []
    assert opened.dialogs == [], "text from a folder's name was run"
    assert {url.split(":")[0] for url in opened.asked} <= {"file", "data", "blob"}
    assert [url for url in opened.asked if url.startswith("file")] == [report.as_uri()]
    assert report.stat().st_size <= 8_000_000
    assert opened.page.locator("#verdict h3").first.text_content() == "<img src=x onerror=alert(1)>"


def test_every_figure_has_drawn_something(opened):
    page = opened.page
    names = page.eval_on_selector_all(".figure", "all => all.map((f) => f.id)")
    assert len(names) == 15
    for name in names:
        columns = page.locator(f"#{name} .column")
        for i in range(columns.count()):
            panels = columns.nth(i).locator(".panel")
            assert panels.count() > 0, f"{name}: column {i} is empty"
        picture = page.locator(f"#{name} .panel").first
        picture.scroll_into_view_if_needed()
        page.wait_for_timeout(50)
        shot = Image.open(io.BytesIO(picture.screenshot())).convert("RGB")
        assert len(shot.getcolors(1 << 20)) > 20, f"{name} is blank"


def test_the_parity_split_changes_the_picture(opened):
    before = opened.heat("patching")
    choice = opened.page.locator("#patching label", has_text="same parity")
    opened.redrawn("patching", choice.click)
    assert opened.heat("patching") != before
    back = opened.page.locator("#patching fieldset", has_text="pairs").locator("label").first
    opened.redrawn("patching", back.click)
    assert opened.heat("patching") == before


def test_the_checkpoint_slider_changes_the_picture(opened):
    page = opened.page
    before, other = opened.heat("patching"), opened.heat("patching", 1)
    slider = page.locator("#checkpoint")
    opened.redrawn("patching", lambda: (slider.focus(), page.keyboard.press("Home")))
    assert page.locator("#checkpoint-label").text_content() == "step 300"
    assert opened.heat("patching") != before
    assert opened.heat("patching", 1) == other, "a run with one checkpoint stays as it is"
    opened.redrawn("patching", lambda: page.keyboard.press("End"))
    assert opened.heat("patching") == before


def test_axes_are_linked(opened):
    page = opened.page
    ranges = """() => [...document.querySelectorAll('#generalization .column')]
      .map((c) => c.querySelector('.panel').layout.xaxis.range.map((v) => Math.round(v)))"""
    page.locator("#generalization").scroll_into_view_if_needed()
    page.evaluate(
        "Plotly.relayout(document.querySelector('#generalization .panel'),"
        "{'xaxis.range[0]': 2, 'xaxis.range[1]': 5})"
    )
    page.wait_for_function(f"() => JSON.stringify(({ranges})()[1]) === '[2,5]'")
    opened.redrawn("generalization", lambda: page.evaluate("statetrace.drawAll()"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast(opened, theme):
    """The page follows the system's colours while it is open."""
    page = opened.page
    if page.evaluate("document.documentElement.dataset.theme") != theme:
        opened.redrawn("compare-patching", lambda: page.emulate_media(color_scheme=theme))
        opened.draw_all()
    ratios = page.evaluate(CONTRAST)
    page.emulate_media(color_scheme="light")
    assert len(ratios) > 200
    poor = [(round(ratio, 2), text) for ratio, text in ratios if ratio < 4.5]
    assert poor == []


def test_pointing_shows_the_numbers(opened):
    page = opened.page
    page.locator("#patching .panel").first.scroll_into_view_if_needed()
    box = page.locator("#patching .panel .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    page.mouse.move(box["x"] + 6, box["y"] + 6)
    page.wait_for_selector("#patching .hoverlayer text")
    words = page.locator("#patching .hoverlayer").first.text_content()
    for word in ("prefix length 1", "layer 0", "NLD 1", "deviation"):
        assert word in words
    page.mouse.move(0, 0)


def test_runs_of_different_groups_stand_side_by_side(browser, opened, tmp_path):
    three = seen(tmp_path / "three", "S3").run.path
    four = seen(tmp_path / "four", "S4").run.path
    write_report([three, four], tmp_path / "groups.html")
    found = Opened(browser, tmp_path / "groups.html")
    titles = """() => [...document.querySelectorAll('#geometry .column')]
      .map((column) => column.querySelector('.panel')?.layout.title.text)"""
    found.redrawn("geometry", found.page.locator("#geometry label", has_text="clearest").click)
    first, second = found.page.evaluate(titles)
    assert first.startswith("layer")
    assert "object" not in first
    assert ", by position of object " in second
    assert found.errors == []
    found.context.close()


def test_a_figure_drawn_anew_keeps_the_focus(opened):
    """Figures are redrawn as they come near, which Tab may cause."""
    table = opened.page.locator(".figure .tables .wide").first
    table.focus()
    opened.draw_all()
    assert table.evaluate("table => table === document.activeElement")


def test_keys_reach_every_control(opened):
    page = opened.page
    page.locator(".skip").focus()
    reached, radios = [], set()
    for _ in range(400):
        page.keyboard.press("Tab")
        at = page.evaluate(
            "(() => { const e = document.activeElement; return [e.id, e.tagName, e.name || '',"
            "e.dataset.save || '', e.closest('.figure')?.id || ''] })()"
        )
        if at[1] == "BODY":
            break
        reached.append(tuple(at))
        radios.add(at[2])
    assert any(at[0] == "theme" for at in reached)
    assert any(at[0] == "checkpoint" for at in reached)
    wanted = page.eval_on_selector_all("input[type=radio]", "all => all.map((r) => r.name)")
    assert set(wanted) <= radios
    lists = page.locator("select").count()
    assert sum(at[1] == "SELECT" for at in reached) == lists
    shown = page.locator(".save:not([hidden]) button").count()
    assert sum(bool(at[3]) for at in reached) == shown
    scrolled = page.locator(".wide").count()  # wide tables are scrolled by arrow keys
    assert sum(at[1] == "DIV" for at in reached) == scrolled


def test_arrow_keys_choose(opened):
    page = opened.page
    before = opened.heat("compare-patching")
    page.locator("#compare-patching input[type=radio]").first.focus()
    opened.redrawn("compare-patching", lambda: page.keyboard.press("ArrowRight"))
    assert opened.heat("compare-patching") != before
    opened.redrawn("compare-patching", lambda: page.keyboard.press("ArrowLeft"))


def test_the_button_turns_the_lights_off(opened):
    page = opened.page
    paper = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(paper)
    opened.redrawn("compare-patching", page.locator("#theme").click)
    assert page.evaluate(paper) != before
    opened.redrawn("compare-patching", page.locator("#theme").click)
    assert page.evaluate(paper) == before


@pytest.mark.parametrize("kind", ["csv", "svg", "png"])
@pytest.mark.parametrize("figure", ["patching", "geometry"])
def test_figures_can_be_saved(opened, figure, kind):
    button = opened.page.locator(f"#{figure} [data-save={kind}]")
    with opened.page.expect_download() as waiting:
        button.click()
    data = Path(waiting.value.path()).read_bytes()
    assert waiting.value.suggested_filename.endswith(f".{kind}")
    if kind == "png":
        size = Image.open(io.BytesIO(data)).size
        assert min(size) > 300
    elif kind == "svg":
        assert data.startswith(b"<svg ")
        assert b"onerror=alert(1)>" not in data
    else:
        rows = list(csv.DictReader(io.StringIO(data.decode())))
        assert len(rows) > 10
        assert rows[0]["step"] == "900"
        if figure == "patching":
            shown = [float(row["NLD"]) for row in rows if row["column"] == "theirs"]
            cells = [cell for line in opened.heat("patching", 1) for cell in line]
            assert shown == pytest.approx(cells)


CUT = """[...document.querySelectorAll('.panel')].filter((p) => Math.abs(p.clientWidth -
  p.querySelector('.main-svg').getBoundingClientRect().width) > 2).length"""
HIDDEN = """[...document.querySelectorAll('.verdict .wide')]
  .map((wide) => wide.scrollWidth - wide.clientWidth)"""


def test_nothing_sticks_out_at_any_width(browser, report):
    found = Opened(browser, report, 390)
    page = found.page
    found.draw_all()
    for width in (390, 820, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"() => {CUT} === 0")  # plots follow their boxes
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        hidden = page.evaluate(HIDDEN)
        assert len(hidden) == 2
        assert max(hidden) <= 0, f"the evidence does not fit at {width}"
    assert found.errors == []
    found.context.close()


def test_links_lead_to_their_figure_before_any_is_drawn(browser, report):
    visitor = Opened(browser, report)
    page = visitor.page
    page.locator("nav summary").click()
    for link in page.locator("nav a").all()[-3:]:
        link.click()
        name = link.get_attribute("href")
        page.wait_for_function(
            "(name) => Math.abs(document.querySelector(name).getBoundingClientRect().top - 64) < 40"
            " || innerHeight + scrollY >= document.documentElement.scrollHeight - 2",
            arg=name,
        )
        assert page.locator(f"{name} h2").is_visible()
        page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
    visitor.context.close()


def test_figures_do_not_move_when_they_are_drawn(browser, report):
    visitor = Opened(browser, report, width=820)
    tall = visitor.page.evaluate("document.documentElement.scrollHeight")
    visitor.page.wait_for_selector("html[data-complete=true]", timeout=60_000)
    assert visitor.page.evaluate("document.documentElement.scrollHeight") == tall
    drawn = "[...document.querySelectorAll('.panel')].every((panel) => panel.data)"
    assert visitor.page.evaluate(drawn)
    visitor.context.close()


def test_on_paper_it_is_light_without_buttons(opened):
    page = opened.page
    opened.redrawn("compare-patching", page.locator("#theme").click)
    page.evaluate("addEventListener('afterprint', () => { window.printed = 1 })")
    page.evaluate("addEventListener('beforeprint', () => { window.ink = document.querySelector"
                  "('.panel').layout.font.color })")  # fmt: skip
    assert page.pdf().startswith(b"%PDF")
    assert page.evaluate("window.ink") == "#1D2127"
    page.emulate_media(media="print")
    assert page.locator(".save").first.is_hidden()
    broken = "getComputedStyle(document.querySelector('#patching .side')).breakAfter"
    assert page.evaluate(broken) == "avoid", "a heading may stand on another page than its picture"
    page.emulate_media(media="screen")
    opened.redrawn("compare-patching", page.locator("#theme").click)
