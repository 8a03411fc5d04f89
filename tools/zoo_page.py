"""The README.md of a model of the zoo, written from its card."""

from patchword.core.disk_space import format_bytes
from patchword.zoo.card import ZooCard, format_score

_PAGE = """\
# {name}

{task}.

```
{uses}
```

| | |
|---|---|
| model | {model}, {parameters:,} parameters |
| weights | {dtype}, {size} |
| data | {data} |
| licence of the data | {data_licence} |
| licence of the weights | {licence} |
| score | {score} on the {part} data{examples}; {before} before the weights were converted |
| made with | patchword {patchword}, seed {seed}; {made} |

## How it was made

```
{command}
```

`recipe.yaml` in this folder has every setting.

## Limits

{limits}

## Sample

{source}. Licence: {sample_licence}. On these examples{sample_examples} the weights reach {sample_score}.
"""
_RECIPE = "\n`recipe.yaml` in this folder has every setting.\n"


def page(card: ZooCard) -> str:
    """Return the model card as Markdown."""
    text = _PAGE.format(
        **{name: getattr(card, name) for name in ("name", "model", "parameters", "dtype", "data", "data_licence")},
        task=card.task[0].upper() + card.task[1:],
        **{name: getattr(card, name) for name in ("licence", "patchword", "seed", "made", "command", "limits")},
        uses="\n".join(card.uses),
        size=format_bytes(card.size),
        score=card.score.text(),
        part=card.score.part,
        before=format_score(card.score.metric, card.score.before),
        examples=_counted(card.score.examples),
        source=card.sample.source,
        sample_licence=card.sample.licence,
        sample_examples=_counted(card.sample.examples),
        sample_score=format_score(card.sample.metric, card.sample.value),
    )
    return text if card.kind != "word-vectors" else text.replace(_RECIPE, "")


def _counted(count: int | None) -> str:
    return f" ({count:,} examples)" if count else ""
