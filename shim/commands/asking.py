"""Client of the control server, for all commands that use the control API.

It has the server's address and token, the errors if it cannot be reached, and the output: `--json` for programs, text
for people.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from http.client import BadStatusLine, HTTPException, InvalidURL
from typing import Any, Final, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import click

from kafka_shim.apis.readable import LONGEST_LINE, readable, readable_lines

CONTROL: Final = "http://127.0.0.1:8092"
TOKEN: Final = "KAFKA_SHIM_CONTROL_TOKEN"
CA: Final = "KAFKA_SHIM_CONTROL_CA"
"""The variable with the certificate to trust for HTTPS, a PEM file; without it those of the system count."""
SECONDS: Final = 60.0
_WIDE: Final = 100_000

control_option: Final = click.option(
    "--control",
    envvar="KAFKA_SHIM_CONTROL",
    default=CONTROL,
    show_default=True,
    metavar="URL",
    show_envvar=True,
    help="URL of the server's control port (`serve --control`).",
)
json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class NotThere(click.ClickException):
    """The server has no such group, topic, broker, fault or puppet."""

    exit_code = 3


def ask(control: str, method: str, path: str, body: dict[str, Any] | None = None, seconds: float = SECONDS) -> Any:
    """Send a request to the control server and return its answer. Raises ClickException, in one sentence."""
    with open_answer(control, method, path, body, seconds) as answer:
        try:
            return json.load(answer)
        except (OSError, HTTPException):
            raise click.ClickException(f"{control} has stopped in the middle of its answer.") from None
        except ValueError:
            raise click.ClickException(f"{control} is not a control server of kafka-shim.") from None


def open_answer(control: str, method: str, path: str, body: Any = None, seconds: float | None = None) -> Any:
    """Send a request to the control server; the caller reads and closes the answer. Raises ClickException, in one
    sentence.
    """
    url = control if "://" in control else f"http://{control}"
    token = os.environ.get(TOKEN, "")
    if not url.startswith(("http://", "https://")):
        raise click.ClickException(f"{control!r} is not the address of a control server, such as {CONTROL}.")
    if not (token.isascii() and token.isprintable()):
        raise click.ClickException(f"{TOKEN} is not a valid token: it must be printable ASCII.")
    try:
        request = Request(url.rstrip("/") + path, None if body is None else json.dumps(body).encode(), method=method)
        request.add_header("Content-Type", "application/json")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        # No proxy: a proxy cannot reach servers on this machine.
        handlers = [ProxyHandler({}), *_secret(url)]
        return build_opener(*handlers).open(request, timeout=seconds)
    except HTTPError as error:
        _refused(control, error, path)
    except URLError as error:
        _unreachable(control, error.reason)
    except OSError as error:
        _unreachable(control, error)
    except (InvalidURL, ValueError):
        raise click.ClickException(f"{control!r} is not the address of a control server, such as {CONTROL}.") from None
    except HTTPException:
        raise click.ClickException(f"{control} is not a control server of kafka-shim.") from None


def _secret(url: str) -> list[HTTPSHandler]:
    if not url.startswith("https:"):
        return []
    import ssl

    file = os.environ.get(CA) or None
    try:
        return [HTTPSHandler(context=ssl.create_default_context(cafile=file))]
    except (ssl.SSLError, OSError):
        raise click.ClickException(f"{CA} is {file!r}, which is no PEM file with a certificate.") from None


def _refused(control: str, error: HTTPError, path: str) -> NoReturn:
    try:
        message = json.load(error)["message"]
    except (ValueError, KeyError, TypeError):
        raise click.ClickException(
            f"{control} is not a control server of kafka-shim: it answers {error.code}."
        ) from None
    if error.code == 401:
        if os.environ.get(TOKEN):
            message = f"{control} refuses the token in {TOKEN}."
        else:
            message = f"{control} needs its token: put it into {TOKEN}."
    raise (NotThere(_not_there(path, message)) if error.code == 404 else click.ClickException(message)) from None


def _not_there(path: str, message: str) -> str:
    """Return the sentence with the name, and the command that lists the names."""
    match = re.match(r"/v1/(\w+)s/([^/?]+)", path)
    if match is None or message != f"There is no such {match[1]}.":
        return message
    name = unquote(match[2])
    quoted = name if name.isdecimal() else repr(name)
    return f"There is no {match[1]} {quoted}; `kafka-shim {match[1]}s list` shows all."


def _unreachable(control: str, reason: Any) -> NoReturn:
    if type(reason).__name__ == "SSLCertVerificationError":
        what_to_do = f"put the certificate of its authority, a PEM file, into {CA}"
        raise click.ClickException(f"{control} shows a certificate that is not trusted: {what_to_do}.") from None
    if isinstance(reason, TimeoutError):
        raise click.ClickException(f"{control} does not answer.") from None
    if isinstance(reason, ConnectionRefusedError):
        what_to_do = "start `kafka-shim serve --control HOST:PORT`, or name its address with --control"
        raise click.ClickException(f"Nothing answers at {control}: {what_to_do}.") from None
    if isinstance(reason, BadStatusLine):
        raise click.ClickException(
            f"{control} is not a control server of kafka-shim: name the address of `serve --control`."
        ) from None
    raise click.ClickException(f"{control} cannot be reached: {getattr(reason, 'strerror', None) or reason}.") from None


def path_segment(name: str) -> str:
    """Quote a name as a segment of a path."""
    if not name:
        raise click.ClickException("A name must not be empty.")
    return quote(name, safe="")


def say(answer: Any, as_json: bool, text: Callable[[], str]) -> None:
    """Print an answer: as JSON, or as the result of `text`."""
    click.echo(json.dumps(answer) if as_json else readable_lines(text()))


def table(columns: tuple[str, ...], rows: Iterable[list[str]]) -> None:
    """Print rows under the names of their columns."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        grid.add_row(*(Text(readable(cell, LONGEST_LINE)) for cell in row))
    # Users copy ids, so no line is cut.
    Console(highlight=False, width=_WIDE).print(grid)
