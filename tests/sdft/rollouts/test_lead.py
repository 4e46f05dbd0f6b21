"""Episodes that the oracle begins and the student goes on with."""

import pytest

from selfsurf.agents.play.job import EpisodeRequest
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.rows.samples import samples_of
from selfsurf.sdft.run.metrics import batch_figures
from selfsurf.sdft.teacher.lessons import LessonContext
from selfsurf.sdft.teacher.oracle import OracleContext

LOGIN = "MiniWoB/login-user-v0"
JOBS = [Job(LOGIN, seed) for seed in range(6)]


@pytest.mark.slow
def test_the_oracle_takes_the_first_steps_and_the_student_the_others(tiny_policy, settings):
    agent = make_agent(tiny_policy, settings, sampling=True)
    with Rollouts(3, max_episode_steps=4) as rollouts:
        results = rollouts.run(agent, JOBS, seed=3, lead=0.7)
        again = rollouts.run(agent, JOBS, seed=3, lead=0.7)
        alone = rollouts.run(agent, JOBS, seed=3)
    assert len({result.led for result in results}) > 2
    assert [result.led for result in results] == [result.led for result in again]
    assert [result.led for result in alone] == [0] * len(JOBS)
    for result in results:
        for number, step in enumerate(result.steps):
            told = step.privileged
            assert bool(step.decision.completion.token_ids) == (number >= result.led)
            if number < result.led:
                assert step.decision.action.to_dict() == told["action"]
        if result.led == 2 and len(result.steps) > 2:
            _, _, student = result.steps[:3]
            values = [element["value"] for element in student.observation["elements"][:2]]
            assert all(values), "the oracle has filled both fields"
            prompt = student.decision.messages[-1].text
            assert prompt.count('{"fill":1,"text":"') + prompt.count('{"fill":2,"text":"') >= 2, "told as done"
    assert any(result.solved for result in results if result.led >= 3)


def test_nothing_is_learned_or_said_of_the_oracles_steps(tiny_policy, settings):
    agent = make_agent(tiny_policy, settings, sampling=True)
    with Rollouts(3, max_episode_steps=4) as rollouts:
        results = rollouts.run(agent, JOBS, seed=3, lead=0.7)
    lessons = LessonContext([OracleContext()])
    rows = samples_of(results, tiny_policy, lessons)
    own = [step for result in results for step in result.steps[result.led :]]
    assert [row.completion_ids for row in rows] == [
        step.decision.completion.token_ids for step in own if step.privileged
    ]
    assert lessons.take_counts() == {"told/oracle": len(rows)}
    figures = batch_figures(results, rows, rows)
    unled = [result for result in results if not result.led]
    assert figures["episodes/led"] == len(results) - len(unled)
    assert figures["episodes/success"] == sum(result.solved for result in unled) / len(unled)
    assert "episodes/success" not in batch_figures([result for result in results if result.led], rows, rows)


def test_how_many_steps_are_led():
    asked = [EpisodeRequest(0, JOBS[0], seed=seed) for seed in range(2000)]
    assert all(ask.led(0.0) == 0 for ask in asked)
    led = [ask.led(0.5) for ask in asked]
    assert sum(led) / len(led) == pytest.approx(1.0, abs=0.15)  # lead / (1 - lead)
    assert sum(count == 0 for count in led) / len(led) == pytest.approx(0.5, abs=0.05)
    assert EpisodeRequest(0, JOBS[0]).led(0.9) == 0, "without a seed nothing is drawn"
