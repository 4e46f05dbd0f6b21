"""The examples of docs/views.md run, and print what it says."""

import re
import runpy
from pathlib import Path


def test_the_examples_run(tmp_path, capsys):
    text = (Path(__file__).parents[3] / "docs" / "views.md").read_text(encoding="utf8")
    program = tmp_path / "views.py"
    program.write_text("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), encoding="utf8")
    names = runpy.run_path(str(program))
    printed = capsys.readouterr().out
    names["env"].close()
    assert printed.startswith("changed:\nline 3")
    changes = printed[: printed.index("end True")]
    assert "".join(f"    {line}\n" for line in changes.splitlines()) in text
    assert names["scan"].complete
    assert names["obs"]["last_error"] == ""
    assert (names["marked"] == names["same"]).all()
    assert names["parts"]
