"""A count as text, Markdown or LaTeX: sizes, every step, sums, and what is not counted."""

from patchword.analysis.cost.writing.latex import as_latex
from patchword.analysis.cost.writing.markdown import as_markdown
from patchword.analysis.cost.writing.text import as_text

__all__ = ["as_latex", "as_markdown", "as_text"]
