"""`selfsurf bench`: measurements against a raw limit or a peer, in one run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from selfsurf.scripts import bench_learn, bench_run

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)


@app.callback()
def _group() -> None:
    """Measure against a raw limit or a peer, in one run."""


app.command("run")(bench_run.main)
app.command("learn")(bench_learn.main)


@app.command("suites")
def suites(
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """List the suites that come with the package, with their splits and groups."""
    from collections import Counter

    from selfsurf.envs_registry.suites import load_suite, suite_names

    found: list[dict[str, Any]] = []
    for name in suite_names():
        suite = load_suite(name)
        found.append(
            {
                "name": name, "description": suite.description, "tasks": len(suite.tasks), "seeds": list(suite.seeds),
                "splits": dict(Counter(task.split for task in suite.tasks if task.split)),
                "groups": dict(Counter(group for task in suite.tasks for group in task.groups)),
            }
        )  # fmt: skip
    if as_json:
        print(json.dumps(found, indent=1))
        return
    for one in found:
        print(f"{one['name']}: {one['description']}")
        for kind in ("splits", "groups"):
            print(f"  {kind}: " + ", ".join(f"{name} {count}" for name, count in one[kind].items()))


@app.command("env")
def env(
    rounds: Annotated[
        int | None, typer.Option(help="Rounds, in which all take turns; 20, with --peers 5 by default.", min=1)
    ] = None,
    peers: Annotated[
        bool, typer.Option("--peers", help="Beside BrowserGym and browser-use, installed in the cache on first use.")
    ] = False,
    task: Annotated[str, typer.Option(help="A MiniWoB++ task whose first checkboxes can be clicked for ever.")] = (
        "click-checkboxes-large"
    ),
    docs: Annotated[
        Path | None, typer.Option(help="Folder of the Python documentation as HTML; fetched with apt by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Time steps, resets and observations beside the raw work and the peers. Exit code 0: all were measured."""
    from selfsurf.scripts.bench_env import measure, show
    from selfsurf.scripts.machine.processes import ending_on_signal

    with ending_on_signal():
        figures = measure(task, rounds or (5 if peers else 20), peers=peers, docs=docs)
    _tell(figures, show, as_json)
    _all_measured(figures)


@app.command("throughput")
def throughput(
    rounds: Annotated[int, typer.Option(help="Rounds, in which all take turns.", min=1)] = 3,
    seeds: Annotated[int, typer.Option(help="Episodes of each task in a round of ours.", min=1)] = 20,
    workers: Annotated[int, typer.Option(help="Episodes at the same time.", min=1)] = 4,
    peers: Annotated[
        bool, typer.Option("--peers", help="Beside BrowserGym, installed in the cache on first use.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Time whole episodes of five MiniWoB++ tasks, solved by the oracle. Exit code 0: all were measured."""
    from selfsurf.scripts.bench_throughput import measure, show
    from selfsurf.scripts.machine.processes import ending_on_signal

    with ending_on_signal():
        figures = measure(rounds, seeds, workers, peers=peers)
    _tell(figures, show, as_json)
    _all_measured(figures)


@app.command("observe")
def observe(
    page: Annotated[list[str] | None, typer.Option(help="Only the page of this name; may be repeated.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only pages of this kind.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print what differs, element by element.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the pages; nothing is installed or opened.")] = False,
    peers: Annotated[bool, typer.Option("--peers", help="Time BrowserGym and browser-use on the same pages.")] = False,
    region: Annotated[str, typer.Option(help="page, or viewport: what a default observation shows of it.")] = "page",
) -> None:
    """Measure how faithful, fast and large the observation is on real pages. Exit code 0: all were measured."""
    from selfsurf.scripts.bench_observe import PEERS, measure
    from selfsurf.scripts.machine.processes import ending_on_signal
    from selfsurf.scripts.observation.pages.table import choose, listed
    from selfsurf.scripts.observation.show import explain, show, totals

    try:
        pages = choose(page or (), kind)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if region not in ("page", "viewport"):
        raise typer.BadParameter(f"--region is page or viewport, not {region}.")
    if listing:
        print(
            json.dumps(listed(pages), indent=1)
            if as_json
            else "\n".join("  ".join(row.values()) for row in listed(pages))
        )
        return
    beside = PEERS if peers else ()
    with ending_on_signal():
        rows = measure(pages, region="viewport" if region == "viewport" else "page", peers=beside, explain=verbose)
    if as_json:
        print(json.dumps({"pages": [row.figures() for row in rows], "total": totals(rows)}, indent=1))
    else:
        for row in rows:
            if verbose and not row.problem:
                explain(row)
        show(rows, beside)
    if any(row.problem for row in rows):
        raise typer.Exit(1)


@app.command("vector")
def vector(
    envs: Annotated[str, typer.Option(help="Numbers of environments, with commas between.")] = "1,2,4,8,16,32,64",
    out: Annotated[
        Path | None, typer.Option(help="Folder for vector.json and the curve vector.png; none is written by default.")
    ] = None,
    screenshot: Annotated[
        bool, typer.Option("--screenshot/--no-screenshot", help="With screenshots first, or without them only.")
    ] = True,
    rounds: Annotated[int, typer.Option(help="Rounds at each number, in which all take turns.", min=1)] = 3,
    seconds: Annotated[float, typer.Option(help="How long each works in a round.", min=0.1)] = 2.0,
    task: Annotated[str, typer.Option(help="A MiniWoB++ task whose first checkboxes can be clicked for ever.")] = (
        "click-checkboxes-large"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Measure the speed and memory of many environments in one process. Exit code 0: all were measured."""
    from selfsurf.scripts.bench_vector import measure, show, write
    from selfsurf.scripts.machine.processes import ending_on_signal

    counts = _counts(envs)
    with ending_on_signal():
        figures = measure(task, counts, modes=[True, False] if screenshot else [False], rounds=rounds, seconds=seconds)
    _tell(figures, show, as_json)
    for path in write(figures, out) if out else []:
        typer.echo(f"Written: {path}", err=True)
    _all_measured(figures)


@app.command("agents")
def agents(
    model: Annotated[str, typer.Option(help="Short name, hub id or folder of the model.")] = "smollm2",
    adapter: Annotated[Path | None, typer.Option(help="Folder of a LoRA adapter.")] = None,
    envs: Annotated[str, typer.Option(help="Numbers of environments, with commas between.")] = "1,2,4,8,16",
    actions: Annotated[int, typer.Option(help="At least so many are timed with each number.", min=1)] = 48,
    rounds: Annotated[int, typer.Option(help="Rounds at each number, in which all take turns.", min=1)] = 3,
    out: Annotated[
        Path | None, typer.Option(help="Folder for agents.json and the curve agents.png; none is written by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Time the local policy beside plain generate, on the prompts of real episodes. Exit code 0: all were measured."""
    from selfsurf.scripts.bench_agents import measure, show, write
    from selfsurf.scripts.terminal.console import quiet_libraries

    quiet_libraries()
    figures = measure(model, _counts(envs), actions=actions, rounds=rounds, adapter=adapter)
    _tell(figures, show, as_json)
    for path in write(figures, out) if out else []:
        typer.echo(f"Written: {path}", err=True)


@app.command("rollouts")
def rollouts(
    model: Annotated[str, typer.Option(help="Short name, hub id or folder of the model.")] = "smollm2",
    workers: Annotated[str, typer.Option(help="Numbers of browser workers, with commas between.")] = "1,2,4",
    episodes: Annotated[int, typer.Option(help="Episodes of a batch.", min=1)] = 40,
    rounds: Annotated[int, typer.Option(help="Batches of each, in which all take turns.", min=1)] = 3,
    contexts: Annotated[int, typer.Option(help="Episodes at the same time in a worker.", min=1)] = 8,
    steps: Annotated[int, typer.Option(help="Optimizer steps of each training; 0 leaves it out.", min=0)] = 8,
    scale: Annotated[
        int | None, typer.Option(help="Calculate the growth to so many browsers instead of showing figures.", min=1)
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="With --scale: the JSON of an earlier measurement; nothing is measured then.")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="With --scale: a figure, name=value.")] = None,
    cpus: Annotated[float, typer.Option(help="With --scale: processors of a browser worker.", min=0.01)] = 1.0,
    policies: Annotated[
        int | None, typer.Option(help="With --scale: policy workers; by default as many as are needed.", min=1)
    ] = None,
    version_seconds: Annotated[
        float, typer.Option(help="With --scale: seconds between two versions of the weights.", min=0.001)
    ] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Measure rollouts with workers beside one process, and how much of generation or training is hidden."""
    from selfsurf.scripts.bench_rollouts import figures_of, measure, show, show_growth
    from selfsurf.scripts.machine.processes import ending_on_signal
    from selfsurf.scripts.terminal.console import quiet_libraries

    quiet_libraries()
    found: dict[str, Any] | None = None
    if scale is None or (figures is None and not set_):
        with ending_on_signal():
            found = measure(
                model, _counts(workers, "--workers"), episodes=episodes, rounds=rounds, contexts=contexts,
                steps=0 if scale else steps,
            )  # fmt: skip
    if scale is None:
        assert found is not None
        _tell(found, show, as_json)
        return
    from selfsurf.sdft.rollouts.scale import as_json as listed
    from selfsurf.sdft.rollouts.scale import growth

    try:
        given = figures_of(figures, set_ or [], found and found["figures"])
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    points = listed(
        growth(given, scale, contexts=contexts, cpus=cpus, policies=policies, version_seconds=version_seconds)
    )
    print(json.dumps(points, indent=1)) if as_json else show_growth(points)


@app.command("contexts")
def contexts(
    model: Annotated[str, typer.Option(help="Short name, hub id or folder of the model.")] = "smollm2",
    task: Annotated[list[str] | None, typer.Option(help="A task with an oracle, e.g. click-link; repeatable.")] = None,
    seeds: Annotated[int, typer.Option(help="Episodes of each task.", min=1)] = 4,
    seed: Annotated[int, typer.Option(help="The first of them.")] = 1_000_000,
    lead: Annotated[float, typer.Option(help="How likely the oracle is to take each next step at first.")] = 0.0,
    wording: Annotated[
        list[str] | None, typer.Option(help="Another way to tell the oracle's action, {action}; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Measure how much likelier the right action becomes with each thing that a teacher can be told and shown."""
    from selfsurf.agents.prompt.prompt import check_wording
    from selfsurf.scripts.bench_contexts import TASKS, measure, show
    from selfsurf.scripts.learning.settings import env_id, short
    from selfsurf.scripts.terminal.arguments import check_learnable
    from selfsurf.scripts.terminal.console import quiet_libraries

    if not 0 <= lead < 1:
        raise typer.BadParameter("--lead is a probability: from 0 to less than 1.")
    try:
        wordings = [check_wording(text) for text in wording or ()]
    except ValueError as error:
        raise typer.BadParameter(f"--wording {error}.") from None
    quiet_libraries()
    names = [short(one) for one in task or TASKS]
    check_learnable([env_id(name) for name in names])
    _tell(measure(model, names, seeds, seed, lead=lead, wordings=wordings), show, as_json)


@app.command("train")
def train(
    model: Annotated[str, typer.Option(help="Short name, hub id or folder of the model.")] = "smollm2",
    rows: Annotated[int, typer.Option(help="Rows of a batch.", min=1)] = 10,
    rounds: Annotated[int, typer.Option(help="Rounds, in which both trainers take turns.", min=1)] = 5,
    out: Annotated[Path | None, typer.Option(help="Folder for train.json; none is written by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Time learning steps beside TRL's stock SDFTTrainer, on the same rows. Exit code 0: both were measured."""
    from selfsurf.scripts.bench_train import measure, show, write
    from selfsurf.scripts.terminal.console import quiet_libraries

    quiet_libraries()
    figures = measure(model, rows=rows, rounds=rounds)
    _tell(figures, show, as_json)
    for path in write(figures, out) if out else []:
        typer.echo(f"Written: {path}", err=True)


@app.command("report")
def report(
    folders: Annotated[list[Path], typer.Argument(help="Results folder; of two or more, each beside the first.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files; the (first) results folder by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Report a results folder, or compare several, as JSON, Markdown and HTML. Exit code 0: no episode is missing."""
    from selfsurf.scripts.report.report import headline, write_comparison, write_report

    figures, written = write_report(folders[0], out) if len(folders) == 1 else write_comparison(folders, out)
    print(json.dumps(figures.as_json(), indent=1) if as_json else "\n".join(headline(figures)))
    for path in written:
        typer.echo(f"Written: {path}", err=True)
    if not figures.complete:
        raise typer.Exit(1)


@app.command("leaderboard")
def leaderboard(
    folders: Annotated[list[Path], typer.Argument(help="Results folders.")],
    out: Annotated[Path, typer.Option(help="The page, FILE.html; FILE.md is written beside it.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
) -> None:
    """Rank runs by strict success, a table for every suite and its seeds. Exit code 0: the page was written."""
    from selfsurf.scripts.report.leaderboard import leaderboard_markdown, listed, write_leaderboard

    boards, written = write_leaderboard(folders, out)
    print(json.dumps(listed(boards), indent=1) if as_json else leaderboard_markdown(boards))
    for path in written:
        typer.echo(f"Written: {path}", err=True)


def _counts(text: str, hint: str = "--envs") -> list[int]:
    try:
        counts = sorted({int(count) for count in text.split(",")})
    except ValueError:
        counts = []
    if not counts or counts[0] < 1:
        raise typer.BadParameter(f"{text!r} is not a list of numbers such as 1,2,8.", param_hint=hint)
    return counts


def _tell(figures: dict[str, Any], show: Callable[[dict[str, Any]], None], as_json: bool) -> None:
    if as_json:
        print(json.dumps(figures, indent=1))
    else:
        show(figures)


def _all_measured(figures: dict[str, Any]) -> None:
    if figures["errors"]:
        raise typer.Exit(1)
