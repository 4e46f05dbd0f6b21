"""The examples of docs/examples.md run as they stand, in one folder, and print what their comments say."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from selfsurf.scripts.cli import app
from selfsurf.scripts.docs.pages import ROOT

TEXT = (ROOT / "docs" / "examples.md").read_text(encoding="utf8")
PARTS = re.findall(r"(?:^`(\S+)`\n\n)?^```(python|bash)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_the_examples_run_as_they_stand(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert len(PARTS) == TEXT.count("```") / 2 >= 9
    for file, language, code in PARTS:
        if file:
            (tmp_path / file).write_text(code, encoding="utf8")
        elif language == "python":
            exec(compile(code, "docs/examples.md", "exec"), {"__name__": "__main__"})
            printed = capsys.readouterr().out.splitlines()
            assert re.findall(r"^ *print\(.*\)  # (.+)$", code, re.MULTILINE) in (printed, []), code
        else:
            for line in code.splitlines():
                result = CliRunner().invoke(app, shlex.split(line)[1:])
                assert result.exit_code == 0, (line, result.output)
