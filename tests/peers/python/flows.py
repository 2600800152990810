"""Makes the flows that JSON describes, in `tests/wire/flows.json` and in lines of `follow.py`."""

from __future__ import annotations

from typing import Any

from delayed_compat import Chain, Flow, Group, RustStep, RustTask, chain, group
from delayed_compat.flow import Part


def part(described: dict[str, Any]) -> Part:
    """Make a `chain` or a `group`, a `call` or a `step`, with the options that are beside it."""
    options = dict(described)
    if "call" in options:
        return RustTask(options.pop("call"), **options)
    if "step" in options:
        return RustStep(options.pop("step"), **options)
    return root(options)


def root(options: dict[str, Any]) -> Chain | Group:
    """Make a `chain` or a `group`, with its options."""
    if "chain" in options:
        return chain(*map(part, options["chain"]))
    return group(map(part, options.pop("group")), **options)


def flow(described: dict[str, Any]) -> Flow:
    """Make a flow of a `chain` or a `group`, with the options of both."""
    options = dict(described)
    of_root = {name: options.pop(name) for name in ROOT if name in options}
    if "on_error" in options:
        options["on_error"] = part(options["on_error"])
    return Flow(root(of_root), **options)


ROOT = ("chain", "group", "at_most", "policy")
