"""Write the tables of options and settings in `docs/running.md`: `python -m tests.commands.reference`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from kafka_shim.broker.admin.meanings import MEANINGS
from kafka_shim.broker.setting import MAX_INT, MAX_LONG, ConfigType, Setting
from kafka_shim.broker.settings import BROKER_SETTINGS
from kafka_shim.broker.unused_settings import unused_settings
from kafka_shim.cli import serve
from kafka_shim.groups.config import AT_LEAST

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "running.md"
_BEGIN, _END = "<!-- {name}: generated, `python -m tests.commands.reference` -->", "<!-- end of {name} -->"
_TYPES: Final = {
    ConfigType.BOOLEAN: "true, false",
    ConfigType.STRING: "text",
    ConfigType.LIST: "names, with commas",
}


def renewed(page: str) -> str:
    """Return the page with its tables generated again."""
    for name, table in (("options", _options(serve)), ("settings", _settings())):
        begin, end = _BEGIN.format(name=name), _END.format(name=name)
        block = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        body = "\n".join(table)
        page = block.sub(lambda _, text=f"{begin}\n\n{body}\n\n{end}": text, page)  # type: ignore[misc]
    return page


def _options(command: click.Command) -> Iterator[str]:
    yield "| option | default | meaning |"
    yield "| --- | --- | --- |"
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            yield f"| `{_spelling(option)}` | {_default(option)} | {option.help} |"


def _spelling(option: click.Option) -> str:
    if option.is_flag:
        return option.opts[0]
    if isinstance(option.type, click.Choice):
        return f"{option.opts[0]} {', '.join(map(str, option.type.choices))}"
    kinds: tuple[type[click.ParamType[Any]], ...] = (click.types.IntRange, click.types.FloatRange)
    if isinstance(option.type, kinds):
        bounds = f"{_number(option.type.min)} to {_number(option.type.max)}"  # type: ignore[attr-defined]
        return f"{option.opts[0]} {option.metavar or 'N'} ({bounds})"
    metavar = option.metavar or ("FILE" if isinstance(option.type, click.Path) else option.type.name)
    return f"{option.opts[0]} {metavar}{' ...' if option.multiple else ''}"


def _default(option: click.Option) -> str:
    if option.is_flag or option.multiple or not isinstance(option.default, (str, int, float)):
        return ""
    return f"`{_number(option.default) if isinstance(option.default, float) else option.default}`"


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _settings() -> Iterator[str]:
    yield "| setting | default | range | meaning |"
    yield "| --- | --- | --- | --- |"
    for name in sorted(MEANINGS):
        setting = BROKER_SETTINGS[name]
        yield f"| `{name}` | `{setting.default or ''}` | {_range(setting)} | {MEANINGS[name]} |"
    yield ""
    yield "These too can be set, altered and described, as in Kafka; they have no effect here:"
    yield ""
    yield "| setting | default | range |"
    yield "| --- | --- | --- |"
    unused = {setting.name for setting in unused_settings()}
    for name in sorted(BROKER_SETTINGS.keys() - MEANINGS.keys() - unused):
        setting = BROKER_SETTINGS[name]
        yield f"| `{name}` | {f'`{setting.default}`' if setting.default else ''} | {_range(setting)} |"


def _range(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    if setting.type in _TYPES:
        return _TYPES[setting.type]
    limit = MAX_INT if setting.type is ConfigType.INT else MAX_LONG
    at_least = max(setting.least, AT_LEAST.get(setting.name.replace(".", "_"), setting.least))
    least = None if at_least < -limit else _number(at_least)
    most = None if setting.most >= limit else _number(setting.most)
    if least is None:
        return "any number" if most is None else f"up to {most}"
    return f"from {least}" if most is None else f"{least} to {most}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
