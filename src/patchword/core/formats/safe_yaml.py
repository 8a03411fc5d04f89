"""Strict YAML: no Python tags, no aliases (a few of them can expand to billions of values), no duplicate keys."""

from typing import Any

import yaml

_DEEPEST = 100  # levels of lists and mappings: PyYAML's time grows with their square


class _Plain(yaml.SafeLoader):
    """PyYAML's safe loader without aliases, duplicate keys and endless nesting."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # of PyYAML
            raise yaml.constructor.ConstructorError(None, None, f"*{event.anchor}: write it out", event.start_mark)
        if self._depth == _DEEPEST:
            raise ValueError(f"expected at most {_DEEPEST} levels of lists and mappings, got more")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [key.value for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
        if twice := [str(name) for name in names if names.count(name) > 1]:
            raise yaml.constructor.ConstructorError(None, None, f"{twice[0]!r} is there twice", node.start_mark)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str) -> Any:
    """Parse a YAML document; anything that is not allowed raises a YAMLError or a ValueError."""
    loader = _Plain(text)
    try:
        return loader.get_single_data()
    except (ArithmeticError, AttributeError, LookupError, TypeError):  # e.g. of !!int ""
        raise ValueError("expected values that fit their tags") from None
    finally:
        loader.dispose()
