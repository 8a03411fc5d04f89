"""Phrases and names that are masked as units: from a file, or found by a Chinese word segmenter."""

from pathlib import Path

from patchword.core.errors import UserError
from patchword.data.text.batching.mask_groups import Continues, phrases, segmented
from patchword.data.text.corpus.phrase_units import segment
from patchword.data.text.formats.text_io import lines_of, read_utf8
from patchword.data.text.tokenizers.tokenizer import Tokenizer


def units_of(path: str, tokenizer: Tokenizer) -> Continues:
    if path:
        listed = [line.strip() for line in lines_of(read_utf8(Path(path))) if line.strip()]
        found = phrases([ids.tolist() for ids in tokenizer.ids_of(listed)])
        if not listed:
            raise UserError(f"{path} is empty", expected="one phrase or name per line")
        return found
    segment("")  # an error if there is no segmenter
    return segmented(tokenizer.written, segment)
