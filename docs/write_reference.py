"""Write docs/plugins/reference.md: hooks, `toolkit.Run` and public names, from their docstrings.

python docs/write_reference.py
"""

from __future__ import annotations

import inspect
import os
import re
import textwrap

import toolkit
from toolkit import hookspecs, testing
from toolkit.testing import contracts

COMMAND = "python docs/write_reference.py"
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plugins", "reference.md")
HEADING = re.compile(r"^# -{10,} (.+)$", re.M)  # between the hooks of the source
SECTIONS = ("Args", "Returns", "Raises", "Attributes")
VALUES = {  # of public names that have no docstring of their own
    "OptimizerArguments": "The type of an option with arguments of an optimizer: name=value,...",
    "tf": "TensorFlow 1's interface, `tensorflow.compat.v1`, with Keras 2 as `tf.keras`.",
}
INTRODUCTION = f"""# Reference

`{COMMAND}` writes this page from the docstrings of the toolkit.
[README.md](README.md) names the pages that explain.

- [Hooks](#hooks)
- [`toolkit.Run`](#toolkitrun)
- [`toolkit.SampleRequest`](#toolkitsamplerequest)
- [Public names](#public-names)
- [`toolkit.testing`](#toolkittesting)
- [Contracts](#contracts)
"""


def make_page():
    """The text of the page."""
    return "\n".join(
        [
            INTRODUCTION,
            *describe_hooks(),
            *describe_class(toolkit.Run, "`toolkit.Run`", "run"),
            *describe_class(toolkit.SampleRequest, "`toolkit.SampleRequest`", "request"),
            *list_names(),
            *list_contracts(),
        ]
    )


def describe_hooks():
    yield "## Hooks\n"
    yield without_title(hookspecs.__doc__) + "\n"
    headings = [(m.start(), m[1]) for m in HEADING.finditer(inspect.getsource(hookspecs))]
    positions = {name: position_of(name) for name in hook_names()}
    for number, (start, heading) in enumerate(headings):
        end = headings[number + 1][0] if number + 1 < len(headings) else float("inf")
        yield f"### {heading[0].upper()}{heading[1:]}\n"
        for name, position in positions.items():
            if start < position < end:
                hook = getattr(hookspecs, name)
                yield f"#### {name}\n\n```text\n{name}{describe_signature(hook)}\n```\n"
                yield describe(hook) + "\n"


def hook_names():
    """The names of all hooks, in the order of the source."""
    names = [n for n, f in vars(hookspecs).items() if hasattr(f, hookspecs.PROJECT + "_spec")]
    return sorted(names, key=position_of)


def position_of(name):
    match = re.search(rf"^def {name}\(", inspect.getsource(hookspecs), re.M)
    return match.start()


def describe_class(cls, title, instance, level="##"):
    """Its docstring, properties and methods.

    title: the heading, of that level; instance: what pages call an object of the class.
    """
    yield f"{level} {title}\n"
    yield describe(cls) + "\n"
    for name, member in vars(cls).items():
        if name.startswith("_") or not inspect.getdoc(member):
            continue
        if isinstance(member, property):
            yield f"{level}# {instance}.{name}\n\n{describe(member)}\n"
        elif callable(member) or isinstance(member, (classmethod, staticmethod)):
            function = getattr(cls, name)
            yield f"{level}# {instance}.{name}\n"
            yield f"```text\n{instance}.{name}{describe_signature(function)}\n```\n"
            yield describe(function) + "\n"


def list_names():
    yield "## Public names\n\n`from toolkit import ...`; `help(toolkit.NAME)` has the details.\n"
    yield table(("name", ""), [(f"`{name}`", summary_of(name)) for name in toolkit.__all__])
    yield "## `toolkit.testing`\n\n`from toolkit import testing`.\n"
    rows = [(f"`{n}`", first_sentence(getattr(testing, n))) for n in testing.__all__]
    rows = [(name, text or "A reference to a small model.") for name, text in rows]
    yield table(("name", ""), rows)


def list_contracts():
    yield "## Contracts\n\nWhat `toolkit plugins check` and the fixture `contract` check.\n"
    yield table(("name", "what holds"), [(f"`{c.name}`", c.title) for c in contracts.ALL])


def summary_of(name):
    """One line on a public name."""
    return VALUES.get(name) or first_sentence(getattr(toolkit, name))


def first_sentence(value):
    """The first sentence of a docstring; "" for a value of a plain type."""
    if isinstance(value, (str, int)):
        return ""
    paragraph = inspect.getdoc(value).split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0]


def table(head, rows):
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def describe_signature(function):
    """The parameters with their defaults, without types and `self`."""
    signature = inspect.signature(function)
    parameters = [
        p.replace(annotation=inspect.Parameter.empty)
        for name, p in signature.parameters.items()
        if name != "self"
    ]
    empty = inspect.Signature.empty
    text = str(signature.replace(parameters=parameters, return_annotation=empty))
    return re.sub(r"<function .*? at 0x\w+>", "...", text)  # a default that is a function


def without_title(docstring):
    return inspect.cleandoc(docstring).split("\n\n", 1)[1]


def describe(value):
    """A docstring as Markdown."""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):\n", inspect.getdoc(value), flags=re.M)
    texts = [parts[0].strip()]
    for name, body in zip(parts[1::2], parts[2::2]):
        body, rest = split_section(body)
        texts.append(f"**{name}:**\n\n{list_entries(body)}" if name != "Returns" else "")
        if name == "Returns":
            texts[-1] = f"**Returns:** {inspect.cleandoc(body)}"
        texts += [rest] if rest else []
    return "\n\n".join(texts)


def split_section(body):
    """The indented lines of a section, and the text after it."""
    lines = body.splitlines()
    count = next((i for i, line in enumerate(lines) if re.match(r"\S", line)), len(lines))
    return "\n".join(lines[:count]).rstrip(), "\n".join(lines[count:]).strip()


def list_entries(body):
    """`name: text` as an item of a list; lines that are indented further belong to it."""
    lines = textwrap.dedent(body).splitlines()
    items = [re.sub(r"^(\w[\w, ]*): ", r"- `\1`: ", line) for line in lines]
    return "\n".join(item.replace("    ", "  ", 1) for item in items)


def main():
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(make_page())


if __name__ == "__main__":
    main()
