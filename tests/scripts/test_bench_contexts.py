import json

import pytest
from typer.testing import CliRunner

from selfsurf.scripts.cli import app


def figures(model, *options):
    result = CliRunner().invoke(app, ["bench", "contexts", "--model", str(model), "--json", *options])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["contexts"]


@pytest.mark.slow
def test_every_context_is_compared_with_none_at_the_same_states(tiny):
    found = figures(tiny, "--task", "click-button", "--seeds", "2", "--wording", "Do {action}")
    whole, page, goal, other = (
        found[name] for name in ("oracle", "oracle, page only", "oracle, goal only", 'oracle, "Do {action}"')
    )
    assert whole["told"] == whole["named"] == whole["agrees"] == whole["states"] >= 2
    assert len({row["right"]["without"] for row in (whole, page, goal, other)}) == 1
    assert len({row["right"]["with"] for row in (whole, page, goal, other)}) == 4
    assert found["feedback"]["named"] == 0


@pytest.mark.slow
def test_a_teacher_is_surer_without_what_leads_it_astray():
    found = figures("smollm2", "--task", "click-option", "--task", "click-button-sequence", "--lead", "0.7")
    whole, page = found["oracle"], found["oracle, page only"]
    assert whole["states"] == page["states"] >= 6
    assert page["right"]["with"] > whole["right"]["with"] > whole["right"]["without"]
    assert page["likeliest"]["with"] > 0.9


@pytest.mark.parametrize("option", [("--lead", "1"), ("--wording", "click it")])
def test_what_can_not_be_measured_is_refused(option):
    result = CliRunner().invoke(app, ["bench", "contexts", *option])
    assert result.exit_code == 2
    assert option[0] in result.output
