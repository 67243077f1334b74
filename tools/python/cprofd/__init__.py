# SPDX-License-Identifier: MIT
"""Profiles this process, or reads what cprofd recorded.

    import cprofd

    with cprofd.profile() as profile:
        compile_something()
    for compile in profile.compiles:
        print(compile.seconds, compile.name, compile.signature)

    recording = cprofd.load("svd.cprof")
    recording.table("function")       # a list of dicts, as `cprofd report --json` has them

In Jupyter: `%load_ext cprofd`, then `%%cprofd` in the first line of a cell."""
from .client import Client, Error, NoDaemon, Refused
from .recording import Compile, Recording, load
from .session import Profile, profile

__all__ = ["Client", "Compile", "Error", "NoDaemon", "Profile", "Recording", "Refused", "load", "profile"]


def load_ipython_extension(shell: object) -> None:
    from .notebook import register

    register(shell)
