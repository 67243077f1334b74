# SPDX-License-Identifier: MIT
"""The cell magic: `%load_ext cprofd`, then

    %%cprofd
    compile_something()

shows the compiles of the cell, and its flame graph. `%cprofd statement` does the same for a line. `%%cprofd -h` has the options."""
from __future__ import annotations

import argparse
import html
import shlex
from typing import Any

from .client import Error
from .recording import Recording
from .session import Profile

TOP = 10


class _Parser(argparse.ArgumentParser):
    """Says what is wrong without an end of the kernel."""

    def error(self, message: str) -> Any:
        raise Error("%%cprofd: %s\n%s" % (message, self.format_usage()))

    def exit(self, status: int = 0, message: str | None = None) -> Any:
        raise Error(message or "")


def _parser() -> _Parser:
    parser = _Parser(prog="%%cprofd", add_help=False, description="Profiles the cell through cprofd's daemon.")
    parser.add_argument("-h", "--help", action="store_true", help="this text")
    parser.add_argument("-r", "--rate", type=int, default=999, help="samples a second")
    parser.add_argument("--native", choices=("full", "leaf", "off"), default="full", help="native frames")
    parser.add_argument("--mode", choices=("cpu", "wall"), default="cpu", help="CPU time, or where threads wait, too")
    parser.add_argument("-o", "--output", metavar="FILE", help="keep the recording")
    parser.add_argument("--page", action="store_true", help="the whole page in place of the flame graph: time line, tables")
    parser.add_argument("--socket", help="the daemon's socket")
    return parser


def table_of(recording: Recording) -> str:
    """The longest compiles, as HTML."""
    compiles = sorted(recording.outermost, key=lambda compile: -compile.seconds)
    if not compiles:
        return "<p>No compiles.</p>"
    rows = "".join("<tr><td>%.3f</td><td>%s</td><td>%s</td></tr>" % (c.seconds, html.escape(str(c)), html.escape(c.compiler)) for c in compiles[:TOP])
    more = "<p>and %d more</p>" % (len(compiles) - TOP) if len(compiles) > TOP else ""
    return "<table><thead><tr><th>seconds</th><th>compile</th><th>compiler</th></tr></thead><tbody>%s</tbody></table>%s" % (rows, more)


def show(recording: Recording, page: bool = False) -> str:
    if page:
        return recording._repr_html_()
    # As wide as the frame.
    picture = "<style>body{margin:0}svg{width:100%;height:auto}</style>" + recording.convert("svg").decode().partition("?>")[2]
    return table_of(recording) + '<iframe srcdoc="%s" style="width:100%%;height:420px;border:0"></iframe>' % html.escape(picture)


def register(shell: Any) -> None:
    import IPython.display

    def magic(line: str, cell: str | None = None) -> Any:
        parser = _parser()
        try:
            options, rest = parser.parse_known_args(shlex.split(line)) if cell is not None else (parser.parse_args([]), [])
            if options.help or rest:
                if rest:
                    print("%%cprofd: what is", " ".join(rest), "?")
                print(parser.format_help())
                return
            profile = Profile(options.output, rate=options.rate, native=options.native, mode=options.mode, socket=options.socket)
            profile.start()
        except Error as error:
            print(error)
            return
        try:
            shell.run_cell(cell if cell is not None else line)
        finally:
            profile.stop()
        shell.user_ns["_cprofd"] = profile
        page: Any = IPython.display
        page.display(page.HTML(show(profile, options.page)))

    shell.register_magic_function(magic, "line_cell", "cprofd")
