"""Trainers of one's own: the collector, scores under the grammar, and the programs of docs/own-trainer.md as printed."""

import importlib
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model_state_dict
from transformers import AutoModelForCausalLM, AutoTokenizer

from selfsurf import agents
from selfsurf.browser_env import BrowserEnv, EnvError
from selfsurf.sdft import Job, RolloutSettings, make_collector, rows_of, score
from selfsurf.sdft.rollouts import EpisodeCounts, RolloutError
from selfsurf.sdft.rollouts.layout import Resources
from tests.processes import browsers, until

DOCS = Path(__file__).parents[2] / "docs" / "own-trainer.md"
JOBS = [Job(task, seed) for task in ("MiniWoB/click-test-2-v0", "MiniWoB/click-option-v0") for seed in (1, 2)]
SHORT = {"max_episode_steps": 2}


@pytest.fixture
def printed(tmp_path, monkeypatch):
    """Imports a program of the page."""
    programs = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", DOCS.read_text(encoding="utf8"), re.DOTALL))
    for name, text in programs.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf8")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module
    for name in programs:
        sys.modules.pop(name, None)


def tokens(batch):
    return [[step.decision.completion.token_ids for step in result.steps] for result in batch.results]


def nudged(model, size=0.2):
    """Other weights for a model's adapter."""
    random = torch.Generator().manual_seed(1)
    weights = get_peft_model_state_dict(model)
    return {name: size * torch.randn(tensor.shape, generator=random) for name, tensor in weights.items()}


def test_weights_that_are_published_act_from_then_on(tiny_folder):
    with make_collector(tiny_folder, environment=SHORT) as collector:
        with pytest.raises(RolloutError, match="Publish weights"):
            collector.request(JOBS)
        assert collector.publish() == 0
        collector.request(JOBS, seed=1)
        first = collector.collect()
        assert collector.publish(nudged(collector.policy.model)) == 1
        other = collector.collect(collector.request(JOBS, seed=1))
        again = collector.collect(collector.request(JOBS, seed=1))
        with pytest.raises(RolloutError, match="Request a batch"):
            collector.collect()
    assert tokens(first) != tokens(other) == tokens(again)
    assert [{result.version for result in batch.results} for batch in (first, other)] == [{0}, {1}]
    assert collector.books.tally == EpisodeCounts(asked=12, finished=12)


def test_a_score_is_the_recorded_one_and_has_a_gradient(tiny_folder):
    with make_collector(tiny_folder, environment=SHORT) as collector:
        policy = collector.policy
        collector.publish(nudged(policy.model))
        batch = collector.collect(collector.request(JOBS))
        samples = [sample for rows in rows_of(batch.results, policy) for sample in rows]
        scores = score(policy, samples)
        scores.sum().backward()
        assert scores.shape == (len(samples), max(len(sample.completion_ids) for sample in samples))
        for row, sample in zip(scores.tolist(), samples, strict=True):
            length = len(sample.completion_ids)
            assert row[:length] == pytest.approx(sample.logprobs, abs=1e-3)
            assert set(row[length:]) <= {0.0}
        (sample,) = samples[:1]
        with torch.no_grad():
            ids = torch.tensor([sample.prompt_ids + sample.completion_ids])
            plain = policy.model(ids).logits[0, len(sample.prompt_ids) - 1 : -1].log_softmax(-1)
            plain = plain.gather(-1, torch.tensor(sample.completion_ids)[:, None]).sum()
        assert float(plain) < sum(sample.logprobs) - 5
        gradients = [weight.grad for name, weight in policy.model.named_parameters() if "lora_A" in name]
        assert any(gradient.abs().max() > 0 for gradient in gradients)
        with pytest.raises(ValueError, match="no samples"):
            score(policy, [])


def test_what_cannot_be_made_is_refused(tiny_folder, tiny_policy):
    with pytest.raises(TypeError, match="temprature"):
        make_collector(tiny_policy, agent={"temprature": 1.0})
    with make_collector(tiny_policy) as collector, pytest.raises(ValueError, match="already has an adapter"):
        make_collector(collector.policy, lora=LoraConfig())
    with pytest.raises(ValueError, match="give its name or folder"):
        make_collector(collector.policy, rollouts=RolloutSettings(workers=1))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"agent": {"temprature": 1.0}}, "no option temprature; did you mean temperature?"),
        ({"agent": {"temperature": "hot"}}, "temperature="),
        ({"environment": {"foo": 1}}, "environment has no option foo; it has "),
        ({"environment": {"screnshot": True}}, "no option screnshot; did you mean screenshot?"),
        ({"environment": {"max_episode_steps": "3"}}, "max_episode_steps must be a whole number"),
        ({"environment": {"headless": 1}}, "headless must be True or False"),
        ({"environment": {"task": "MiniWoB/click-test-v0"}}, "each job names its task and seed"),
        ({"rollouts": {"workers": 2}}, "rollouts must be a RolloutSettings, such as"),
        ({"lora": {"r": 4}}, "lora must be a peft.LoraConfig, such as"),
        ({"model": 3}, "model must be a name, a folder or a TransformersPolicy"),
    ],
)
def test_a_slip_is_refused_before_a_model_is_loaded(given, said):
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        make_collector(**{"model": "no/such-model", **given})


def test_jobs_that_cannot_be_are_refused_and_nothing_is_broken(tiny_folder):
    with make_collector(tiny_folder, environment=SHORT) as collector:
        collector.publish()
        for jobs, said in (
            ([JOBS[0], Job("MiniWoB/clik-test-v0", 0)], "did you mean MiniWoB/click-test-v0?"),
            ([("MiniWoB/click-test-v0", 0)], "A job must be a Job(task, seed)"),
            (JOBS[0], "a list of Job(task, seed)"),
            ([Job("MiniWoB/click-test-v0", "1")], "the seed must be a whole number"),
        ):
            with pytest.raises((TypeError, ValueError), match=re.escape(said)):
                collector.request(jobs)
        assert collector.request(JOBS[:1]) == 0
        assert [result.outcome != "env_error" for result in collector.collect().results] == [True]
        assert collector.books.tally == EpisodeCounts(asked=1, finished=1)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_workers_play_the_same_and_end_at_once(tiny_folder, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    found, books = [], []
    for workers in (0, 1):
        chosen = RolloutSettings(workers=workers, contexts=2, batch=1, policy=Resources(num_cpus=0.5))
        torch.manual_seed(0)
        with make_collector(tiny_folder, environment=SHORT, rollouts=chosen) as collector:
            collector.publish()
            collector.request(JOBS)
            found.append(tokens(collector.collect()))
            if workers:
                os.kill(collector._generator.policy_states()[0].pid, signal.SIGKILL)
                assert until(lambda: collector.books.policies_replaced == 1, 60)
            collector.publish(nudged(collector.policy.model))
            found.append(tokens(collector.collect(collector.request(JOBS))))
            books.append(collector.books)
            start = time.monotonic()
        assert time.monotonic() - start < 8
    assert found[:2] == found[2:]
    assert books[0].tally == books[1].tally
    assert (books[1].policies_lost, books[1].browsers_lost, books[1].weights_put) == (1, 0, 2)


def test_the_trainer_of_the_page_learns_and_saves(printed, tiny_folder, tmp_path, capsys):
    torch.manual_seed(0)
    printed("my_trainer").train(str(tiny_folder), steps=3, out=tmp_path / "mine")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2"]
    assert "EpisodeCounts(asked=24, finished=24" in lines[-1]
    agent = agents.make("transformers", model=str(tiny_folder), adapter=tmp_path / "mine")
    assert (agent.max_new_tokens, list(agent.actions)) == (48, ["click", "fill", "select"])
    assert any(tensor.abs().max() > 0 for name, tensor in agent.policy.model.named_parameters() if "lora_B" in name)


def test_a_page_is_an_environment_of_trls(printed, monkeypatch):
    page = printed("web_page").WebPage()
    assert "[1]" in page.reset(0, prompt="...")
    assert page.get_reward() == 0
    page.click(1)
    assert page.get_reward() == 1
    assert page.click(1) == "The episode has ended."
    assert page.get_reward() == 1

    page.reset(1)
    for browser in browsers():
        browser.kill()
    page.click(1)
    assert page.get_reward() is None

    def broken(self, **_):
        raise EnvError("The browser went away.")

    monkeypatch.setattr(BrowserEnv, "reset", broken)
    assert page.reset(1) == "The browser went away."
    assert (page.get_reward(), page.click(1)) == (None, "The episode has ended.")
    page._env.close()


ARGUMENTS = {
    "use_cpu": True, "bf16": False, "report_to": [], "per_device_train_batch_size": 2, "num_generations": 2,
    "max_steps": 1, "save_strategy": "no", "logging_steps": 1,
}  # fmt: skip
CALL = '<tool_call>\n{"name": "click", "arguments": {"element": 1}}\n</tool_call><|im_end|>'


def taught(model, prompt, said):
    """Teach a tiny model what to say to a prompt, both of token ids."""
    ids = torch.tensor([[*prompt, *said]])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(300):
        logits = model(ids, logits_to_keep=len(said) + 1).logits[0, :-1]
        loss = torch.nn.functional.cross_entropy(logits, ids[0, -len(said) :])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if float(loss.detach()) < 0.005:
            return model
    raise AssertionError("it has not learned it")


@pytest.mark.slow
def test_trls_trainer_calls_the_page_as_tools(printed, tiny_folder, tmp_path):
    from trl.chat_template_utils import qwen2_5_chat_template

    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    program = printed("trl_tools")
    options = {**ARGUMENTS, "max_tool_calling_iterations": 1, "output_dir": str(tmp_path)}
    with pytest.raises(ValueError, match="does not support tool calling"):
        program.trainer(AutoModelForCausalLM.from_pretrained(tiny_folder), tokenizer, **options)
    tokenizer.chat_template = qwen2_5_chat_template
    page = program.WebPage()
    asked = [{"role": "user", "content": program.SAY[0]["content"] + page.reset(0)}]
    tools = {"tools": [page.click, page.fill], "add_generation_prompt": True, "return_dict": False}
    prompt, said = tokenizer.apply_chat_template(asked, **tools), tokenizer.encode(CALL)
    page._env.close()
    model = taught(AutoModelForCausalLM.from_pretrained(tiny_folder), prompt, said)
    trainer = program.trainer(model, tokenizer, **options)
    trainer.train()
    (line,) = [line for line in trainer.state.log_history if "reward" in line]
    assert line["tools/call_frequency"] >= 0.5
    assert line["rewards/WebPage/mean"] >= 0.5
    for page in trainer.environments:
        page._env.close()


@pytest.mark.slow
def test_trls_trainer_learns_from_steps(printed, tiny_folder, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    model = AutoModelForCausalLM.from_pretrained(tiny_folder)
    trainer = printed("trl_steps").trainer(model, tokenizer, **ARGUMENTS, output_dir=str(tmp_path))
    trainer.train()
    (line,) = [line for line in trainer.state.log_history if "reward" in line]
    assert line["rewards/rewards/mean"] >= 0
    collector = trainer.rollout_func.collector
    assert collector.books.tally == EpisodeCounts(asked=2, finished=2)
    policy = collector.policy
    collector.publish()
    batch = collector.collect(collector.request([JOBS[0]]))
    ((first, *_),) = rows_of(batch.results, policy)
    ids = torch.tensor([first.prompt_ids + first.completion_ids])
    with torch.no_grad():
        scores, _, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, torch.ones_like(ids), len(first.completion_ids)
        )
    assert scores[0].tolist() == pytest.approx(first.logprobs, abs=1e-3)  # as TRL scores, without a grammar
    collector.close()
