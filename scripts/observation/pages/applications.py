"""The applications that pages come from: what to install, how to set them up, how to start them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from selfsurf.scripts.observation.pages import install
from selfsurf.scripts.observation.pages.source import App

SITE = Path(__file__).parent / "apps" / "django_site.py"


def _django(kind: str, package: str, *requirements: str) -> App:
    """A Django site that `apps/django_site.py` makes of a package."""
    name = package.partition("==")[0]

    def python() -> str:
        return str(install.home() / "pip" / name / "bin" / "python")

    def ready() -> Path:
        install.pip(name, [package, *requirements])
        key = hashlib.sha256(SITE.read_bytes()).hexdigest()
        return install.prepare(name, key, [[python(), str(SITE), kind, "setup"]])

    def command(_: Path, port: int) -> list[str]:
        return [python(), str(SITE), kind, "serve", str(port)]

    return App(name, package, ready, command)


def _trac() -> App:
    def tool(name: str) -> str:
        return str(install.home() / "pip" / "trac" / "bin" / name)

    def ready() -> Path:
        install.pip("trac", ["Trac==1.6", "setuptools<81"])
        admin = tool("trac-admin")
        tickets = [
            [tool("python"), "-c", _TICKETS.format(number=number, kind=("defect", "enhancement", "task")[number % 3])]
            for number in range(1, 6)
        ]
        return install.prepare(
            "trac",
            "1",
            [
                [admin, "env", "initenv", "Measuring", "sqlite:db/trac.db"],
                [admin, "env", "permission", "add", "anonymous", "TRAC_ADMIN"],
                *tickets,
            ],
        )

    def command(_: Path, port: int) -> list[str]:
        return [tool("tracd"), "--hostname=127.0.0.1", f"--port={port}", "--single-env", "env"]

    return App("trac", "Trac==1.6", ready, command)


_TICKETS = (
    "from trac.env import open_environment; from trac.ticket import Ticket; t = Ticket(open_environment('env')); "
    "t['summary'] = 'Ticket of number {number}'; t['description'] = 'It is ''broken''.'; t['type'] = '{kind}'; "
    "t['status'] = 'new'; t['component'] = 'component1'; t['reporter'] = 'anonymous'; t.insert()"
)


def _otterwiki() -> App:
    def python() -> str:
        return str(install.home() / "pip" / "otterwiki" / "bin" / "python")

    def ready() -> Path:
        install.pip("otterwiki", ["otterwiki==2.26.1"])
        git = ["git", "-C", "repository", "-c", "user.name=a", "-c", "user.email=a@example.org"]
        text = r"# Home\n\n- [[Second]]\n- [x] done\n\n|a|b|\n|-|-|\n|1|2|\n"
        page = f"open('repository/home.md', 'w').write('{text}')"
        made = [["git", "init", "repository"], [python(), "-c", page]]
        return install.prepare(
            "otterwiki", "1", [*made, [*git, "add", "."], [*git, "commit", "--quiet", "--message", "Home"]]
        )

    def command(_: Path, port: int) -> list[str]:
        return [python(), "-m", "flask", "--app", "otterwiki.server", "run", "--host", "127.0.0.1", "--port", str(port)]

    folder = install.home() / "apps" / "otterwiki"
    variables = {
        "REPOSITORY": f"{folder}/repository",
        "SQLALCHEMY_DATABASE_URI": f"sqlite:///{folder}/wiki.sqlite",
        "SECRET_KEY": "0123456789abcdef0123456789abcdef",
        "READ_ACCESS": "ANONYMOUS",
        "WRITE_ACCESS": "ANONYMOUS",
        "ATTACHMENT_ACCESS": "ANONYMOUS",
    }
    return App("otterwiki", "otterwiki==2.26.1", ready, command, lambda: variables)


def _jupyterlab() -> App:
    def python() -> str:
        return str(install.home() / "pip" / "jupyterlab" / "bin" / "python")

    def ready() -> Path:
        install.pip("jupyterlab", ["jupyterlab==4.6.6", "ipykernel==7.4.0"])
        return install.prepare("jupyterlab", "1", [[python(), "-c", _NOTEBOOK]])

    def command(_: Path, port: int) -> list[str]:
        return [
            python(), "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
            "--ServerApp.port_retries=0", "--IdentityProvider.token=", "--ServerApp.password=",
        ]  # fmt: skip

    config = str(install.home() / "apps" / "jupyterlab" / ".jupyter")
    variables = dict.fromkeys(("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"), config)
    return App("jupyterlab", "jupyterlab==4.6.6", ready, command, lambda: variables, probe="/api")


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
TRAC, OTTERWIKI, JUPYTERLAB, FOSSIL = _trac(), _otterwiki(), _jupyterlab(), _fossil()
