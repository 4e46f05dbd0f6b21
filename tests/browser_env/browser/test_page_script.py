"""The in-page scripts as documents get them."""

from pathlib import Path

import pytest

import selfsurf.browser_env
from selfsurf.browser_env.browser.page_script import read_script

SCRIPTS = sorted((Path(selfsurf.browser_env.__file__).parent / "page").glob("*.js"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_only_indentation_and_comments_are_left_out(path):
    written, given = path.read_text(encoding="utf8").splitlines(), read_script(path.stem).splitlines()
    assert len(written) == len(given)
    for number, (line, left) in enumerate(zip(written, given, strict=True), 1):
        assert left == ("" if line.lstrip().startswith("//") else line.lstrip()), number
        assert left.count("`") % 2 == 0, f"line {number}: a text over several lines would lose its indentation"
        assert "/*" not in left or "*/" in left, f"line {number}: a comment over several lines"
