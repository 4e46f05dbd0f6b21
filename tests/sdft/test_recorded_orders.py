"""Recorded orders in a shop that nothing here knows teach SmolLM2-135M other orders."""

import time

import gymnasium
import pytest
from typer.testing import CliRunner

from selfsurf import agents
from selfsurf.scripts.cli import app
from tests.sdft.shop import OTHERS, RECORDED, open_shop


def run(*arguments):
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, result.output


def ordered(shop, agent, order):
    """Let an agent make an order; was it that one, and none besides?"""
    before = len(shop.orders)
    env = gymnasium.make("Browser-v0", start_url=shop.url, goal=order.goal, max_episode_steps=14)
    obs, _ = env.reset(seed=0)
    agent.reset(order.goal)
    over = False
    while not over:
        obs, _, terminated, truncated, _ = env.step(agent.act(obs))
        over = terminated or truncated
    env.close()
    return shop.orders[before:] == [order]


def recorded(shop, order, folder):
    run(
        "run", "--agent", "tests/sdft/shop.py:Expert", "--set", f"order={RECORDED.index(order)}", "--url", shop.url,
        "--goal", order.goal, "--max-steps", 14, "--out", folder,
    )  # fmt: skip
    assert shop.orders[-1] == order
    run("mark", folder, "solved", "--why", "It was ordered.")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("recordings", "seed"), [((0,), 0), ((1,), 1), ((0, 1, 2), 0)])
def test_recorded_orders_teach_others(tmp_path, recordings, seed):
    with open_shop() as shop:
        for which in recordings:
            recorded(shop, RECORDED[which], tmp_path / f"recording-{which}")
        shown = tmp_path.glob("recording-*")
        start = time.monotonic()
        run("train", "--demonstrations", *shown, "--seed", seed, "--out", tmp_path / "trained")
        minutes = (time.monotonic() - start) / 60
        agent = agents.make("transformers", model="smollm2", adapter=tmp_path / "trained" / "adapter")
        solved = [ordered(shop, agent, order) for order in OTHERS]
    print(f"{sum(solved)} of {len(solved)} other orders after {minutes:.1f} minutes")
    assert sum(solved) >= 3, "none without a recording"
