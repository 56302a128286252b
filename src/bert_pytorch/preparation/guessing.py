"""Which encoding bytes are likely of: an honest guess from a sample, never used without a person's or an agent's word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_LEAST_SHARE = 0.7
"""Of the characters beyond ASCII, how many must look like writing."""
_LATIN = "[\xc0-\xd6\xd8-\xf6\xf8-\xff\u0152\u0153\u0160\u0161\u0178\u017d\u017e]"
_MARKS = "[\u2018-\u201e\u2013\u2014\u2026\u20ac\xa3\xa7\xab\xbb\xb0\xbf\xa1\xa0]"
# Letters with accents stand among plain ones, one or two at a time. Small Cyrillic letters stand anywhere in a word, capitals
# at its start: that tells koi8-r from cp1251, where small and capital have changed places.
_IN_LATIN = re.compile(f"(?<=[A-Za-z]){_LATIN}{{1,2}}|{_LATIN}{{1,2}}(?=[A-Za-z])|(?<!\\w){_LATIN}(?!\\w)|{_MARKS}")
_IN_CYRILLIC = re.compile(
    "(?<![A-Za-z])(?:[\u0430-\u044f\u0451]|(?<!\\w)[\u0410-\u042f\u0401])(?![A-Za-z])|[\u2116\u2013\u2014\xab\xbb\xa0]"
)
_SINGLE_BYTE = {"cp1252": _IN_LATIN, "koi8-r": _IN_CYRILLIC, "cp1251": _IN_CYRILLIC}
_FREQUENT_LEADS = {
    # Lead bytes of the frequent characters: each of these standards puts them, kana or syllables first.
    "euc_kr": (0xB0, 0xC8),
    "gb18030": (0xB0, 0xD7),
    "big5": (0xA4, 0xC6),
}
_KANA = re.compile("[\u3041-\u30fe]")
_JAPANESE = re.compile("[\u3001-\u3002\u3041-\u30fe\u4e00-\u9fff\uff01-\uff5e]")
_FULL_WIDTH = re.compile("[\u3000-\u3002\uff01-\uff5e\u300a-\u3011\u201c\u201d\xb7]")
_WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")


def likely_wide(head: bytes) -> str | None:
    """The UTF-16 or UTF-32 that the beginning of a file is likely of; None: neither."""
    for codec in _WIDE:
        try:
            text = head[: len(head) // 4 * 4].decode(codec)
        except UnicodeDecodeError as error:
            # The cut may have parted two halves of a character.
            if error.start < len(head) // 4 * 4 - 4:
                continue
            text = head[: error.start].decode(codec)
        written = sum(unicodedata.category(character)[0] in "LMNPSZ" or character in "\t\r\n" for character in text)
        if "\n" in text and written > 0.95 * len(text):
            return codec
    return None


def likely_encoding(lines: Sequence[bytes]) -> str | None:
    """The encoding that lines with bytes beyond ASCII are likely of; None: none of the usual ones fits.

    Decoding proves little, since some codecs take any bytes: what counts is how many of the characters beyond ASCII then stand
    where writing has them. An encoding in which a few bytes are damaged is found too.
    """
    sample = b"\n".join(lines)
    shares = {codec: _share(sample, codec) for codec in ("utf-8", "cp932", "euc_jp", *_FREQUENT_LEADS, *_SINGLE_BYTE)}
    best = max(shares, key=lambda codec: shares[codec])
    return best if shares[best] >= _LEAST_SHARE else None


def _share(sample: bytes, codec: str) -> float:
    """The share of the characters beyond ASCII that look like writing in this encoding."""
    text = sample.decode(codec, "replace")
    beyond = [character for character in text if not character.isascii()]
    if not beyond:
        return float(codec == "utf-8")
    decoded = [character for character in beyond if character != "\ufffd"]
    if codec == "utf-8":
        n_likely = len(decoded)
    elif codec in _SINGLE_BYTE:
        n_likely = sum(map(len, _SINGLE_BYTE[codec].findall(text)))
    elif codec in _FREQUENT_LEADS:
        low, high = _FREQUENT_LEADS[codec]
        n_likely = sum(bool(_FULL_WIDTH.match(each)) or low <= each.encode(codec)[0] <= high for each in decoded)
    else:
        # Japanese has kana between its Chinese characters; the same bytes as another language have few.
        is_japanese = sum(bool(_KANA.match(each)) for each in decoded) >= 0.2 * len(beyond)
        n_likely = sum(bool(_JAPANESE.match(each)) for each in decoded) if is_japanese else 0
    return n_likely / len(beyond)
