"""The packages of the wheel: every folder of a part that has an `__init__.py`, under the part's name in `selfsurf`."""

from setuptools import find_packages, setup

PARTS = ("agents", "browser_env", "envs_registry", "scripts", "sdft", "tasks")

setup(
    package_dir={"selfsurf": "envs_registry/selfsurf", **{f"selfsurf.{part}": part for part in PARTS}},
    packages=[
        "selfsurf",
        *(
            f"selfsurf.{name}"
            for part in PARTS
            for name in find_packages(include=[part, f"{part}.*"], exclude=["envs_registry.selfsurf"])
        ),
    ],
)
