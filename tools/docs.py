"""Pages that are made from the code when the documentation is built, so that they cannot fall behind it.

A hook of mkdocs (`hooks:` in mkdocs.yml). A page says where with a line of its own: `{{ commands }}` becomes the help
of every command, `{{ pipeline }}` the words of a pipeline file, `{{ notes }}` the list of design notes.
"""

import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTES = ROOT / "docs" / "design"
SCHEMA = ROOT / "src" / "seiche" / "spark" / "pipeline" / "schema.json"


def on_config(config: Any, **_: Any) -> Any:
    """Put every design note under `Design` in the menu."""
    for entry in config["nav"]:
        if "Design" in entry:
            entry["Design"] = [f"design/{path.name}" for path in [NOTES / "README.md", *notes()]]
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what a page asks for."""
    for name, make in {"commands": commands, "pipeline": pipeline, "notes": listed_notes}.items():
        mark = f"{{{{ {name} }}}}"
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return markdown


def notes() -> list[Path]:
    """The design notes, in order."""
    return sorted(NOTES.glob("[0-9]*.md"))


def listed_notes() -> str:
    """A line for each design note."""
    titles = ((path.name, path.read_text("utf-8").splitlines()[0].lstrip("# ")) for path in notes())
    return "\n".join(f"- [{title}]({name})" for name, title in titles)


def commands() -> str:
    """The help of every command."""
    return "\n".join(line for path, command in all_commands() for line in _command(path, command))


def all_commands() -> Iterator[tuple[str, Any]]:
    """Every command, by the words that call it."""
    import typer

    from seiche.cli.commands import app

    def walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
        inside: Mapping[str, Any] = getattr(command, "commands", {})
        if not inside or getattr(command, "invoke_without_command", False):
            yield path, command
        for name, one in inside.items():
            yield from walk(f"{path} {name}", one)

    yield from walk("seiche", typer.main.get_command(app))


def _command(path: str, command: Any) -> Iterator[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    words = [one.metavar or one.name.upper() for one in arguments]
    usage = [path, *(word if one.required else f"[{word}]" for word, one in zip(words, arguments, strict=True))]
    yield from (f"## {path}", "", "```text", " ".join([*usage, *(["[OPTIONS]"] if options else [])]), "```", "")
    yield from (_prose(command.help or ""), "")
    rows = [(f"`{word}`", getattr(one, "help", "") or "") for word, one in zip(words, arguments, strict=True)]
    rows += [(_option(one), _explained(one)) for one in options]
    if rows:
        yield from ("| | |", "|---|---|", *(f"| {left} | {_cell(right)} |" for left, right in rows), "")


def _prose(help_: str) -> str:
    return inspect.cleandoc(help_.replace("\b", ""))


def _option(option: Any) -> str:
    said = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    return said if option.is_flag else f"{said} `{option.metavar or option.name.upper()}`"


def _explained(option: Any) -> str:
    text = option.help or ""
    default = option.default
    if option.is_flag or option.required or default in (None, "", [], ()) or callable(default):
        return text
    return f"{text} Default: `{default}`."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def words_of(part: str) -> list[str]:
    """What may be said in a part of a pipeline file."""
    return list(json.loads(SCHEMA.read_text("utf-8"))["$defs"][part]["properties"])


def pipeline() -> str:
    """The words of a pipeline file, part by part, and the schema itself."""
    schema = json.loads(SCHEMA.read_text("utf-8"))
    parts = {"The file": schema, **{f"A {name}": schema["$defs"][name] for name in ("source", "step", "check")}}
    lines = [line for title, part in parts.items() for line in _part(title, part, schema)]
    return "\n".join([*lines, "## The schema", "", "```json", json.dumps(schema, indent=2), "```", ""])


def _part(title: str, part: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"## {title}", "")
    if part.get("description"):
        yield from (part["description"], "")
    yield from ("| word | what it takes | what it says |", "|---|---|---|")
    for name, said in part["properties"].items():
        must = " (needed)" if name in part.get("required", ()) else ""
        yield f"| `{name}`{must} | {_cell(_taken(said, schema))} | {_cell(said.get('description', ''))} |"
    yield ""


def _taken(said: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """What may stand behind a word, in a few words."""
    if "$ref" in said:
        name = said["$ref"].rpartition("/")[2]
        if name in ("source", "step", "check"):
            return f"a {name}"
        return "a column, or a list of columns" if name == "columns" else _taken(schema["$defs"][name], schema)
    if "enum" in said:
        return ", ".join(f"`{one}`" for one in said["enum"])
    kind = said.get("type")
    if kind == "array":
        return f"a list: {_taken(said['items'], schema)}"
    if kind == "object" and "properties" in said:
        needed = said.get("required", ())
        return ", ".join(f"`{name}`" + ("" if name in needed else " (if wanted)") for name in said["properties"])
    if kind == "object":
        return f"by name: {_taken(said['additionalProperties'], schema)}"
    words = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}
    return " or ".join(words[one] for one in (kind if isinstance(kind, list) else [str(kind)]))
