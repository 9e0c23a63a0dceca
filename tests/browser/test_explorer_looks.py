"""How the explorer looks: contrast, widths, wrong addresses, two models, models of other kinds."""

import re

import numpy as np
import pytest

from statetrace.inspection import look
from tests.browser.test_report import CONTRAST
from tests.browser.visiting import Visit
from tests.explorer.serving import TOKEN, serving
from tests.inspection.cases import random_model, zoo

pytestmark = pytest.mark.browser

WIDTHS = (390, 768, 1440)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast(browser, server, theme):
    found = Visit(browser, f"{server.url}#p=4-0-6&x=4.0", theme=theme)
    found.page.wait_for_function("() => !document.getAnimations().length")  # cells fade in
    ratios = found.page.evaluate(CONTRAST)
    assert len(ratios) > 200
    own = [r for r in ratios if len(r[1]) > 1]  # single signs are pictures, or letters on discs
    assert [(round(ratio, 2), text) for ratio, text in own if ratio < 4.5] == []
    on_discs = found.page.eval_on_selector_all(
        ".disc",
        "all => all.map((d) => ['circle', 'text'].map((n) =>"
        " getComputedStyle(d.querySelector(n)).fill.match(/\\d+/g).map(Number)))",
    )
    assert len(on_discs) == 3
    assert min(contrast(*pair) for pair in on_discs) >= 4.5
    found.close()


def contrast(one, other):
    """WCAG 2, of two colours as [r, g, b]."""

    def light(colour):
        parts = [v / 255 for v in colour]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722])) + 0.05

    low, high = sorted((light(one), light(other)))
    return high / low


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out(browser, server, width):
    found = Visit(browser, f"{server.url}#p=4-0-6", width)
    page = found.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".headline").bounding_box()["y"] < 300
    small = page.evaluate(
        "[...document.querySelectorAll('main button, main input:not([type=radio]), .choice span')]"
        ".filter((e) => { const b = e.getBoundingClientRect(); return b.width && b.width < 14; })"
        ".length"
    )
    assert small == 0
    fine = page.eval_on_selector_all(
        ".fine", "all => all.map((note) => parseFloat(getComputedStyle(note).fontSize))"
    )
    assert fine
    assert max(fine) < 15  # notes are smaller than the text
    found.close()
    moved = Visit(browser, server.url, width)
    box = "document.querySelector('{}').getBoundingClientRect()"
    place = f"scrollY + {box.format('[data-key=parity-0-0]')}.top"
    before = moved.page.evaluate(place)
    handle = moved.page.locator("[data-key=parity-handle]")
    moved.answered(lambda: (handle.focus(), moved.page.keyboard.press("End")))
    assert moved.page.evaluate(place) == before, "the grid moved under the handle"
    ends = [box.format(each) + ".right" for each in ("[data-key=parity-handle]", ".scroll")]
    assert moved.page.evaluate(" <= ".join(ends)), "the handle is cut off at the end"
    moved.close()


def test_the_button_turns_the_lights_off(visit):
    page = visit.page
    paper = "getComputedStyle(document.body).backgroundColor"
    cell = "getComputedStyle(document.querySelector('.cell')).backgroundColor"
    before = [page.evaluate(paper), page.evaluate(cell)]
    page.locator("#theme").click()
    for colour, light in zip((paper, cell), before, strict=True):
        page.wait_for_function(f"() => {colour} !== '{light}'")


def test_a_wrong_address_is_told_in_words(browser, server):
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.url.replace(TOKEN, "guess"))
    assert "lacks the token" in page.locator("body").text_content()
    context.close()
    broken = Visit(browser, f"{server.url}#a=132,999&t=banana&p=4-0,x")
    assert "'999'" in broken.page.locator("#trouble").text_content()
    broken.errors.clear()  # the browser tells of the refusal
    broken.close()


def test_a_server_that_has_ended_is_told_of(browser):
    with serving(zoo()) as server:
        found = Visit(browser, server.url)
    found.page.get_by_text("Random").click()
    found.page.wait_for_function("() => document.getElementById('trouble').textContent")
    said = found.page.locator("#trouble").text_content()
    assert said == "the explorer does not respond; is it still running?"
    found.errors.clear()  # the browser tells of it as well
    found.close()


def test_two_models_read_the_same_input(browser):
    with serving(zoo(), random_model("rotary")) as server:
        found = Visit(browser, server.url)
        page = found.page
        assert page.locator(".headline").count() == 2
        page.locator("#actions").fill("132 213")
        for model in (0, 1):
            page.wait_for_function(
                f"() => document.querySelectorAll(\"[data-model='{model}'] .number\").length === 2"
            )
        assert found.answer(0) == next(iter(look(zoo(), "132,213").answer()))
        assert found.answer(1) == next(iter(look(random_model("rotary"), "132,213").answer()))
        found.answered(found.cell("state", 1, 0, model=1).click, model=1)
        assert page.locator("[data-model='0'] .patched").count() == 0
        assert page.locator("[data-model='1'] .patched").count() == 2
        assert page.evaluate("document.documentElement.scrollWidth") <= 1440
        found.close()
        # What one of them refuses is said, whatever the other answers.
        broken = Visit(browser, f"{server.url}#p2=5-0-0")
        assert "no layer 5" in broken.page.locator("#trouble").text_content()
        broken.errors.clear()
        broken.close()


def test_a_hundred_and_twenty_elements_can_be_chosen_from(browser):
    with serving(random_model("many")) as server:
        found = Visit(browser, server.url)
        page = found.page
        found.answered(lambda: page.locator("#actions").fill("42315 12534"))
        assert page.locator(".truth b").last.text_content() == "32514"
        order = page.evaluate(
            "[...document.querySelectorAll('.disc')].sort((a, b) => a.ariaLabel.at(-1) -"
            "b.ariaLabel.at(-1)).map((d) => d.textContent).join('')"
        )
        assert order == "DBAEC", "as Figure 1 of the paper has it"
        page.locator("#palette input").fill("5432")
        assert page.locator("#palette button").all_text_contents() == ["54321"]
        found.answered(lambda: page.keyboard.press("Enter"))
        assert found.sequence() == ["42315", "12534", "54321"]
        page.locator("#palette input").fill("9")
        assert "no element '9'" in page.locator("#palette").text_content()
        found.close()


@pytest.mark.parametrize(
    ("kind", "place", "words"),
    [
        ("recurrent", ".heads", "'mamba' models have no attention"),
        ("clock", "#stage", "the elements of Z60 (0, 1, 2, ...) do not rearrange"),
        ("too many", ".headline", "S6 has too many states for probes"),
        ("sentences", "#sentences", "Swap positions"),
    ],
)
def test_what_a_model_lacks_is_said(browser, kind, place, words):
    with serving(random_model(kind)) as server:
        found = Visit(browser, server.url)
        if kind == "sentences":
            found.answered(lambda: found.page.locator("#actions").fill("132 213"))
        assert words in found.page.locator(place).text_content()
        found.close()


def test_one_key_is_enough(browser, server):
    """From opening the page to knowing that parity comes early, and that it is used."""
    found = Visit(browser, server.url)
    page = found.page
    assert "Parity can be read from layer 4 on" in page.locator(".headline").text_content()
    handle = page.locator("[data-key=parity-handle]")
    # The source is odd where the sequence is even: its prefix at layer 3 turns parity over.
    parity = found.cells("parity")[4]
    color = "(key) => document.querySelector(`[data-key=${key}]`).style.backgroundColor"
    chance, certain = (page.evaluate(color, key) for key in ("state-0-4", "parity-6-15"))
    found.answered(lambda: (handle.focus(), page.keyboard.press("End")))
    assert found.cells("parity")[4] != parity
    different = page.evaluate(color, "parity-6-15")
    assert distance(different, chance) > 100
    assert distance(different, certain) > 100
    found.close()


def distance(one, other):
    """Between two CSS colors, summed over red, green and blue."""
    parts = [[int(part) for part in re.findall(r"\d+", color)] for color in (one, other)]
    return sum(abs(a - b) for a, b in zip(*parts, strict=True))
