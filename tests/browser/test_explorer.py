"""The explorer as people meet it: opened in a real browser, typed into, clicked and dragged."""

import re

import numpy as np
import pytest

from statetrace.explorer import open_model
from statetrace.inspection import Patch, look
from statetrace.runs import Run
from statetrace.training.loop import train
from tests.browser.visiting import Visit
from tests.explorer.serving import serving
from tests.inspection.cases import random_model, zoo
from tests.training.conftest import Recorder, toy

pytestmark = pytest.mark.browser


def test_at_first_sight_parity_is_known_early_and_the_state_late(visit):
    said = visit.page.locator(".headline").text_content()
    assert said == "Parity can be read from layer 4 on, the state only at layer 6."
    view = look(zoo(), visit.sequence())
    labels = zoo().task.group.labels
    true = [labels[s] for s in view.states]
    assert visit.cells("state")[6] == true
    assert sum(a == b for a, b in zip(visit.cells("state")[4], true, strict=True)) < 12
    odd = [["even", "odd"][p] for p in zoo().task.group.parity[view.states]]
    for layer in (4, 5, 6):
        assert visit.cells("parity")[layer] == odd
    for target in ("state", "parity"):
        names = labels if target == "state" else ["even", "odd"]
        read = view.probes[target].argmax(-1)
        assert visit.cells(target) == [[names[i] for i in row] for row in read]
    full = "getComputedStyle(document.querySelector(\"[data-key='{}']\")).backgroundColor"
    shown = {key: visit.page.evaluate(full.format(key)) for key in ("parity-4-15", "state-4-15")}
    assert shown["parity-4-15"] != shown["state-4-15"]


def test_it_asks_nothing_but_its_own_server(visit, server):
    assert len(visit.asked) > 5
    assert all(url.startswith(server.url) for url in visit.asked)


def test_typing_shows_at_once_what_is_read(visit):
    field = visit.page.locator("#actions")
    visit.answered(lambda: field.fill("132 213 231"))
    view = look(zoo(), "132,213,231")
    labels = zoo().task.group.labels
    assert visit.cells("state") == [
        [labels[i] for i in row] for row in view.probes["state"].argmax(-1)
    ]
    truths = visit.page.locator(".truth b").all_text_contents()
    assert truths == ["132", "231", "312"]
    assert visit.page.locator(".truth .sign").all_text_contents() == ["odd", "even", "even"]
    assert visit.answer() == "312"
    visit.answered(visit.page.get_by_text("unembedding", exact=True).click)
    assert visit.cells("state") == [[labels[i] for i in r] for r in view.unembedding.argmax(-1)]


def test_what_is_no_element_is_quoted_and_the_view_stays(visit):
    before = visit.cells("state")
    visit.page.locator("#actions").fill("132 2x3")
    said = visit.page.locator("#trouble").text_content()
    assert said.startswith("S3 has no element '2x3'")
    assert visit.cells("state") == before
    visit.page.locator("#actions").fill(" ".join(["132"] * 49))
    assert visit.page.locator("#trouble").text_content().startswith("49 actions are too many")


def test_clicking_elements_and_swapping_objects_add_actions(visit):
    page = visit.page
    visit.answered(lambda: page.locator("#actions").fill("132"))
    visit.answered(page.locator("#palette button", has_text="231").click)
    assert visit.sequence() == ["132", "231"]
    # The objects stand as the state says; swapping the first two is the action 213.
    places = "[...document.querySelectorAll('.disc')].map((d) => d.getAttribute('aria-label'))"
    before = page.evaluate(places)
    by_place = sorted(range(3), key=lambda i: int(before[i][-1]))
    page.locator(".disc").nth(by_place[0]).click()
    visit.answered(page.locator(".disc").nth(by_place[1]).click)
    assert visit.sequence() == ["132", "231", "213"]
    after = page.evaluate(places)
    assert after[by_place[0]][-1] == "2"
    assert after[by_place[1]][-1] == "1"
    assert after[by_place[2]] == before[by_place[2]]
    moved = page.evaluate("document.querySelector('.disc').style.transform")
    assert re.fullmatch(r"translateX\(\d+px\)", moved)
    visit.answered(page.locator("[aria-label='remove the last action']").click)
    assert visit.sequence() == ["132", "231"]


def test_several_swaps_make_one_action(visit):
    page = visit.page
    visit.answered(lambda: page.locator("#actions").fill("123"))
    page.locator("#gather").check()
    for pair in ((0, 1), (1, 2)):
        for i in pair:
            page.locator(".disc").nth(i).click()
    # A and B trade places, then B (now first) and C: C stands first, A second, B last
    visit.answered(page.locator(".gather button", has_text="Add ").click)
    label = visit.sequence()[-1]
    row = [""] * 3
    for thing, place in zip("ABC", label, strict=True):
        row[int(place) - 1] = thing
    assert "".join(row) == "CAB"


def test_a_replay_walks_through_the_sequence(visit):
    page = visit.page
    visit.answered(lambda: page.locator("#actions").fill("132 213"))
    page.evaluate("""() => {  // records what a slow test would miss
        const note = document.getElementById("stage-note");
        window.notes = [];
        const options = { childList: true, characterData: true, subtree: true };
        new MutationObserver(() => window.notes.push(note.textContent)).observe(note, options);
    }""")
    page.locator("[aria-label='play the sequence']").click()
    page.wait_for_function("() => window.notes.at(-1)?.includes('after 2 actions')")
    assert any(note.startswith("action ") for note in page.evaluate("window.notes"))


def test_clicking_a_cell_patches_it_and_the_answer_changes(visit):
    before = visit.answer()
    here, there = visit.sequence(), visit.sequence("source")
    visit.answered(visit.cell("state", 6, 15).click)
    visit.answered(visit.cell("parity", 0, 0).click)
    assert "patched" in visit.cell("parity", 6, 15).get_attribute("class")
    view = look(zoo(), here, source=there, patches=[Patch(6, 15, 15), Patch(0, 0, 0)])
    assert visit.answer() == next(iter(view.answer()))
    assert visit.answer() != before
    shown = visit.page.locator(".reply li.top .share").text_content()
    assert shown in (">99.9%", f"{100 * view.answers[-1].max():.0f}%")
    visit.answered(visit.cell("state", 6, 15).click)
    visit.answered(visit.cell("state", 0, 0).click)
    assert visit.answer() == before
    assert visit.page.locator(".cell.patched").count() == 0


@pytest.mark.parametrize("delay", [0, 150])
def test_dragging_the_prefix_boundary_patches_a_prefix(browser, server, delay):
    visit = Visit(browser, server.url, delay=delay)
    page = visit.page
    handle = page.locator("[data-key=parity-handle]")
    handle.scroll_into_view_if_needed()
    start, goal = handle.bounding_box(), visit.cell("parity", 5, 9).bounding_box()
    page.mouse.move(start["x"] + 7, start["y"] + 12)
    page.mouse.down()
    for share in (0.3, 0.6, 1.0):
        page.mouse.move(
            start["x"] + 7 + share * (goal["x"] + goal["width"] - start["x"] - 7),
            start["y"] + 12 + share * (goal["y"] + 10 - start["y"] - 12),
        )
    page.wait_for_timeout(1.5 * delay)  # the first answer is there, the last one is not
    visit.answered(page.mouse.up)
    assert handle.get_attribute("aria-valuetext") == "the first 10 actions, at layer 5"
    assert page.locator("[data-target=state] .patched").count() == 10
    here, there = visit.sequence(), visit.sequence("source")
    view = look(zoo(), here, source=there, patches=[Patch(5, 0, 9)])
    said = page.locator(".answers.changed .answer b").all_text_contents()
    labels = zoo().task.group.labels
    assert said == [labels[i] for i in view.answers.argmax(-1)]
    visit.answered(lambda: (handle.focus(), page.keyboard.press("ArrowLeft")))
    assert handle.get_attribute("aria-valuenow") == "9"
    visit.answered(lambda: page.keyboard.press("Home"))
    assert page.locator(".cell.patched").count() == 0
    visit.close()


def test_heads_show_what_they_look_at_and_can_be_switched_off(visit):
    page = visit.page
    visit.answered(page.locator("[data-key='see-0-4.2']").click)
    assert page.locator(".map h4").text_content() == "layer 4, head 2"
    view = look(zoo(), visit.sequence())
    picture = page.locator(".map canvas")
    box = picture.bounding_box()
    row, column = 12, int(view.attention[3, 2, 12].argmax())
    page.mouse.move(
        box["x"] + (column + 0.5) * box["width"] / 17, box["y"] + (row + 0.5) * box["height"] / 16
    )
    said = page.locator(".map output").text_content()
    looked = "the start marker" if column == 0 else f"action {column}"
    assert said.startswith(f"action 13 attends to {looked}: ")
    before = visit.answer()
    for head in range(4):
        visit.answered(page.locator(f"[data-key='cut-0-6.{head}']").click)
    changed = look(zoo(), visit.sequence(), without=[(6, head) for head in range(4)])
    assert visit.answer() == next(iter(changed.answer()))
    said = page.locator(".answers.changed .answer b").all_text_contents()
    assert said != page.locator(".answers:not(.changed) .answer b").all_text_contents()
    visit.answered(page.get_by_text("zero", exact=True).click)
    zeroed = look(zoo(), visit.sequence(), without=[(6, h) for h in range(4)], instead="zero")
    assert visit.answer() == next(iter(zeroed.answer()))
    visit.answered(page.get_by_text("Undo all changes").click)
    assert visit.answer() == before


def test_an_address_is_the_view(visit, browser):
    page = visit.page
    visit.answered(lambda: page.locator("#actions").fill("132 213 231 321 132"))
    visit.answered(visit.cell("state", 4, 1).click)
    visit.answered(page.locator("[data-key='cut-0-3.1']").click)
    visit.answered(page.locator(".number").nth(2).click)
    page.locator("#share").click()
    address = page.evaluate("navigator.clipboard.readText()")
    assert address == page.url
    other = Visit(browser, address)
    for name in (".cell", ".reply", ".answers", ".matrix .one"):
        texts = "all => all.map((e) => [e.textContent, e.className])"
        seen = [v.page.eval_on_selector_all(name, texts) for v in (visit, other)]
        assert seen[0] == seen[1]
    assert other.page.locator(".cell.patched").count() == 2  # in both grids
    other.close()
    visit.answered(page.go_back)
    visit.answered(page.go_back)
    assert page.locator(".one.off").count() == 0
    assert page.locator(".cell.patched").count() == 2
    visit.answered(page.go_forward)
    assert page.locator(".one.off").count() == 1


def test_two_people_do_not_disturb_each_other(visit, browser, server):
    other = Visit(browser, server.url)
    visit.answered(lambda: visit.page.locator("#actions").fill("132 213"))
    other.answered(lambda: other.page.locator("#actions").fill("231 231 231"))
    visit.answered(visit.cell("state", 3, 0).click)
    assert [visit.sequence(), other.sequence()] == [["132", "213"], ["231", "231", "231"]]
    assert other.page.locator(".cell.patched").count() == 0
    other.close()


def test_copied_python_is_the_view(visit):
    page = visit.page
    visit.answered(visit.cell("state", 4, 1).click)
    page.locator("#python").click()
    text = page.evaluate("navigator.clipboard.readText()")
    assert page.locator("#code-text").text_content() == text
    names = {}
    exec(compile(text, "copied", "exec"), names)
    order = list(names["view"].answer())
    assert visit.answer() == order[0]
    expected = look(
        zoo(), visit.sequence(), source=visit.sequence("source"), patches=[Patch(4, 1, 1)]
    )
    np.testing.assert_allclose(names["view"].answers, expected.answers, atol=1e-5)
    page.keyboard.press("Escape")


def test_keys_alone_are_enough(visit):
    page = visit.page
    page.locator(".skip").focus()
    seen = []
    for _ in range(200):
        page.keyboard.press("Tab")
        at = page.evaluate(
            "(() => { const e = document.activeElement; return [e.id, e.dataset?.key || '',"
            "e.name || '', e.tagName, e.getAttribute('aria-label') || e.textContent || '']; })()"
        )
        if at[3] == "BODY":
            break
        seen.append(at)
    ids, keys, names = ({at[i] for at in seen} for i in range(3))
    assert {"share", "python", "theme", "actions", "source", "gather"} <= ids
    assert {"edit", "click", "reader", "instead-0"} <= names
    assert {"parity-0-0", "state-0-0", "parity-handle", "state-handle", "see-0-1.0"} <= keys
    assert all(at[4] or at[2] or at[3] == "INPUT" for at in seen), "a control without a name"
    visit.cell("state", 0, 0).focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    visit.answered(lambda: page.keyboard.press("Enter"))
    assert "patched" in visit.cell("state", 2, 1).get_attribute("class")
    assert page.evaluate("document.activeElement.dataset.key") == "state-2-1"


def test_the_verdict_has_a_map(browser):
    with serving(random_model("gpt2"), zoo()) as server:
        visit = Visit(browser, server.url)
        first, second = visit.page.locator(".judged").all()
        first.get_by_role("button").click()
        first.locator("b").wait_for()
        assert first.locator("b").text_content() == "unlearned"
        second.get_by_role("button").click()
        second.locator("svg").wait_for()
        assert second.locator("b").text_content().startswith("parity-associative, confidence ")
        lengths = second.locator("thead th").all_text_contents()
        assert lengths[1:4] == ["2", "3", "4"]
        assert second.locator("tbody th").all_text_contents() == ["parity", "state"]
        visit.close()


def test_the_slider_follows_training(browser, tmp_path):
    run = Run(tmp_path / "run")
    train(toy(), run, Recorder())
    first = run.checkpoints()[0][0]
    with serving(open_model(run.path, device="cpu")) as server:
        visit = Visit(browser, server.url)
        slider = visit.page.get_by_role("slider", name="checkpoint")
        trained = visit.cells("state")
        visit.answered(lambda: slider.press("Home"))
        early = visit.cells("state")
        assert early != trained
        assert f"k={first}" in visit.page.url
        code = visit.page.locator("#code-text")
        visit.page.locator("#python").click()
        code.wait_for()
        assert f"step={first}" in code.text_content()
        visit.page.keyboard.press("Escape")
        code.wait_for(state="hidden")
        visit.answered(lambda: slider.press("End"))
        assert visit.cells("state") == trained
        visit.open(f"{server.url}#k={first}")
        visit.page.reload()
        visit.page.wait_for_selector("html[data-ready=true]")
        assert visit.page.locator(".training output").text_content().startswith(f"step {first}")
        visit.close()
