"""The applications that pages come from: what to install, how to set them up, how to start them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from selfsurf.scripts.observation.pages import install
from selfsurf.scripts.observation.pages.source import App

SITE = Path(__file__).parent / "apps" / "django_site.py"

Program = Callable[..., str]
"""Gives the path of an installed program by its name; of Python without one."""

_APPS = install.home() / "apps"


def _installed(
    package: str,
    requirements: Sequence[str],
    key: str,
    setup: Callable[[Program], list[list[str]]],
    command: Callable[[Program, int], list[str]],
    variables: Mapping[str, str] | None = None,
    probe: str = "/",
) -> App:
    """An application that pip installs.

    Args:
        package: with its version.
        requirements: what else is installed beside it.
        key: what its setup depends on; when it changes, it is set up again.
        setup: the commands that set it up, in its folder.
        command: starts it on a port.
        variables: further environment variables.
        probe: path that answers with success when it is up.
    """
    name = package.partition("==")[0].lower()

    def program(tool: str = "python") -> str:
        return str(install.home() / "pip" / name / "bin" / tool)

    def ready() -> Path:
        install.pip(name, [package, *requirements])
        return install.prepare(name, key, setup(program))

    return App(name, package, ready, lambda _, port: command(program, port), lambda: variables or {}, probe)


def _django(kind: str, package: str, *requirements: str) -> App:
    """A Django site that `apps/django_site.py` makes of a package."""
    key = hashlib.sha256(SITE.read_bytes()).hexdigest()
    return _installed(
        package, requirements, key,
        lambda program: [[program(), str(SITE), kind, "setup"]],
        lambda program, port: [program(), str(SITE), kind, "serve", str(port)],
    )  # fmt: skip


_TICKETS = (
    "from trac.env import open_environment; from trac.ticket import Ticket; t = Ticket(open_environment('env')); "
    "t['summary'] = 'Ticket of number {number}'; t['description'] = 'It is ''broken''.'; t['type'] = '{kind}'; "
    "t['status'] = 'new'; t['component'] = 'component1'; t['reporter'] = 'anonymous'; t.insert()"
)


def _trac_setup(program: Program) -> list[list[str]]:
    kinds = ("defect", "enhancement", "task")
    return [
        [program("trac-admin"), "env", "initenv", "Measuring", "sqlite:db/trac.db"],
        [program("trac-admin"), "env", "permission", "add", "anonymous", "TRAC_ADMIN"],
        *([program(), "-c", _TICKETS.format(number=at, kind=kinds[at % 3])] for at in range(1, 6)),
    ]


def _otterwiki_setup(program: Program) -> list[list[str]]:
    git = ["git", "-C", "repository", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    text = r"# Home\n\n- [[Second]]\n- [x] done\n\n|a|b|\n|-|-|\n|1|2|\n"
    page = f"open('repository/home.md', 'w').write('{text}')"
    made = [["git", "init", "repository"], [program(), "-c", page]]
    return [*made, [*git, "add", "."], [*git, "commit", "--quiet", "--message", "Home"]]


_NOTEBOOK = """
import nbformat.v4 as v4, nbformat
cells = [v4.new_markdown_cell('# Title\\n\\nA [link](https://example.org).'), v4.new_code_cell('print(1 + 1)')]
nbformat.write(v4.new_notebook(cells=cells), 'notebook.ipynb')
open('notes.txt', 'w').write('Notes')
"""


def _fossil() -> App:
    root = install.home() / "apt" / "fossil" / "root"
    program = str(root / "usr" / "bin" / "fossil")

    def variables() -> dict[str, str]:
        libraries = sorted({str(library.parent) for library in root.rglob("*.so*")})
        return {"HOME": ".", "USER": "admin", "LD_LIBRARY_PATH": os.pathsep.join(libraries)}

    def ready() -> Path:
        install.apt("fossil", ["fossil", "libfuse2"])
        made = [program, "init", "--admin-user", "admin", "measuring.fossil"]
        return install.prepare("fossil", "1", [made], variables())

    def command(_: Path, port: int) -> list[str]:
        return [program, "server", "--localhost", "--localauth", "--port", str(port), "measuring.fossil"]

    return App("fossil", "fossil (apt)", ready, command, variables, probe="/timeline")


OSCAR = _django("oscar", "django-oscar==4.2.1", "whoosh-reloaded==2.7.5", "django-haystack>=3.3,<4")
SPIRIT = _django("spirit", "django-spirit==0.14.3")
WAGTAIL = _django("wagtail", "wagtail==8.0.1")
TRAC = _installed(
    "Trac==1.6", ["setuptools<81"], "1", _trac_setup,
    lambda program, port: [
        program("tracd"), "--hostname=127.0.0.1", f"--port={port}", "--single-env", "env",
    ],
)  # fmt: skip
OTTERWIKI = _installed(
    "otterwiki==2.26.1", [], "1", _otterwiki_setup,
    lambda program, port: [
        program(), "-m", "flask", "--app", "otterwiki.server", "run", "--host", "127.0.0.1", "--port", str(port),
    ],
    {
        "REPOSITORY": f"{_APPS}/otterwiki/repository", "SQLALCHEMY_DATABASE_URI": f"sqlite:///{_APPS}/otterwiki/wiki.sqlite",
        "SECRET_KEY": "0123456789abcdef0123456789abcdef", "READ_ACCESS": "ANONYMOUS", "WRITE_ACCESS": "ANONYMOUS",
        "ATTACHMENT_ACCESS": "ANONYMOUS",
    },
)  # fmt: skip
JUPYTERLAB = _installed(
    "jupyterlab==4.6.6", ["ipykernel==7.4.0"], "1", lambda program: [[program(), "-c", _NOTEBOOK]],
    lambda program, port: [
        program(), "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        "--ServerApp.port_retries=0", "--IdentityProvider.token=", "--ServerApp.password=",
    ],
    dict.fromkeys(("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"), f"{_APPS}/jupyterlab/.jupyter"),
    probe="/api",
)  # fmt: skip
FOSSIL = _fossil()
