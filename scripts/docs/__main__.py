"""Command that updates the generated parts of docs/; with `site`, it builds the site instead."""

from pathlib import Path

import typer

from selfsurf.extras import CHECKOUT, how_to_install
from selfsurf.scripts.docs.pages import ROOT, pages

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def write(context: typer.Context) -> None:
    """Update the generated parts of docs/."""
    if not CHECKOUT:
        typer.echo("Run this in a checkout: an installed package has no documentation.", err=True)
        raise typer.Exit(1)
    if context.invoked_subcommand:
        return
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf8")
            print(path)


@app.command()
def site(out: Path = ROOT / "runs" / "site") -> None:
    """Build the site with the API reference; broken links are errors."""
    from selfsurf.scripts.docs.site import build

    try:
        build(out.resolve())
    except ModuleNotFoundError as error:
        typer.echo(f"This needs {error.name}, of the extra docs: {how_to_install('docs')}", err=True)
        raise typer.Exit(1) from None
    print(out / "index.html")


app()
