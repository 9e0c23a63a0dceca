"""The pictures of the concept pages."""

from PIL import Image

from website.pictures import FOLDER, PICTURES, draw


def test_each_is_committed():
    assert {file.stem for file in FOLDER.glob("*.png")} == set(PICTURES)


def test_one_that_needs_no_model(tmp_path):
    drawn = draw("word-problem", tmp_path)
    assert Image.open(drawn).size == Image.open(FOLDER / drawn.name).size
