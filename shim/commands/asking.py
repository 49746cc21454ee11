"""Asking a control server: what every command over the control API has in common.

Decides where a server is looked for, the message when it cannot be reached, and how answers are shown: `--json` for
programs, text for people. What happens is the server's to know.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from http.client import HTTPException, InvalidURL
from typing import Any, Final, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

import click

CONTROL: Final = "http://127.0.0.1:8092"
TOKEN: Final = "KAFKA_SHIM_CONTROL_TOKEN"
SECONDS: Final = 60.0
_WIDE: Final = 100_000

control_option: Final = click.option(
    "--control", envvar="KAFKA_SHIM_CONTROL", default=CONTROL, show_default=True, metavar="URL", help="Control server."
)
json_option: Final = click.option("--json", "as_json", is_flag=True, help="For programs.")


def ask(control: str, method: str, path: str, body: dict[str, Any] | None = None, seconds: float = SECONDS) -> Any:
    """What the control server answers. Raises ClickException, in one sentence."""
    with opened(control, method, path, body, seconds) as answer:
        try:
            return json.load(answer)
        except (OSError, HTTPException):
            raise click.ClickException(f"{control} has stopped in the middle of its answer.") from None
        except ValueError:
            raise click.ClickException(f"{control} is no control server of kafka-shim.") from None


def opened(control: str, method: str, path: str, body: Any = None, seconds: float | None = None) -> Any:
    """The answer of the control server, to be read and closed. Raises ClickException, in one sentence."""
    url = control if "://" in control else f"http://{control}"
    token = os.environ.get(TOKEN, "")
    if not url.startswith(("http://", "https://")):
        raise click.ClickException(f"{control!r} is no address of a control server, such as {CONTROL}.")
    if not (token.isascii() and token.isprintable()):
        raise click.ClickException(f"What is in {TOKEN} is no token.")
    try:
        request = Request(url.rstrip("/") + path, None if body is None else json.dumps(body).encode(), method=method)
        request.add_header("Content-Type", "application/json")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        # A proxy of the environment knows nothing of servers on this machine.
        return build_opener(ProxyHandler({})).open(request, timeout=seconds)
    except HTTPError as error:
        _refused(control, error)
    except URLError as error:
        _unreachable(control, error.reason)
    except OSError as error:
        _unreachable(control, error)
    except (InvalidURL, ValueError):
        raise click.ClickException(f"{control!r} is no address of a control server, such as {CONTROL}.") from None
    except HTTPException:
        raise click.ClickException(f"{control} is no control server of kafka-shim.") from None


def _refused(control: str, error: HTTPError) -> NoReturn:
    try:
        message = json.load(error)["message"]
    except (ValueError, KeyError, TypeError):
        raise click.ClickException(f"{control} is no control server of kafka-shim: it answers {error.code}.") from None
    if error.code == 401:
        if os.environ.get(TOKEN):
            message = f"The token in {TOKEN} is not that of {control}."
        else:
            message = f"{control} needs its token: put it into {TOKEN}."
    raise click.ClickException(message) from None


def _unreachable(control: str, reason: Any) -> NoReturn:
    if isinstance(reason, TimeoutError):
        raise click.ClickException(f"{control} does not answer.") from None
    if isinstance(reason, ConnectionRefusedError):
        what_to_do = "start `kafka-shim serve --control HOST:PORT`, or say where it is with --control"
        raise click.ClickException(f"Nothing answers at {control}: {what_to_do}.") from None
    raise click.ClickException(f"{control} cannot be reached: {getattr(reason, 'strerror', None) or reason}.") from None


def named(name: str) -> str:
    """A name as a segment of a path."""
    if not name:
        raise click.ClickException("A name is not empty.")
    return quote(name, safe="")


def say(answer: Any, as_json: bool, text: Callable[[], str]) -> None:
    """Show an answer: as JSON, or as what `text` makes of it."""
    click.echo(json.dumps(answer) if as_json else text())


def table(columns: tuple[str, ...], rows: Iterable[list[str]]) -> None:
    """Show rows under the names of their columns."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    # Ids are there to be copied, so no line is cut.
    Console(highlight=False, width=_WIDE).print(shown)
