"""The likely encoding of text in several languages; texts are escaped."""

import random

import pytest

from bert_pytorch.preparation.guessing import likely_encoding, likely_wide

GERMAN = "Der B\xe4r und die V\xf6gel fl\xfcchten \xfcber die Stra\xdfe \u2013 sch\xf6n, sagte sie \u201edanke\u201c"
RUSSIAN = (
    "\u041c\u043e\u0441\u043a\u0432\u0430 \u0441\u0442\u043e\u043b\u0438\u0446\u0430 \u0420\u043e\u0441"
    "\u0441\u0438\u0438, \u0431\u043e\u043b\u044c\u0448\u043e\u0439 \u0433\u043e\u0440\u043e\u0434"
)
CHINESE = (
    "\u6211\u4eec\u5728\u5317\u4eac\u5b66\u4e60\u4e2d\u6587\uff0c\u4eca\u5929\u5929\u6c14\u5f88\u597d"
    "\u3002\u4ed6\u662f\u6211\u7684\u670b\u53cb"
)
TAIWANESE = (
    "\u6211\u5011\u5728\u53f0\u5317\u5b78\u7fd2\u4e2d\u6587\uff0c\u4eca\u5929\u5929\u6c23\u5f88\u597d"
    "\u3002\u4ed6\u662f\u6211\u7684\u670b\u53cb"
)
JAPANESE = (
    "\u79c1\u306f\u6771\u4eac\u3067\u65e5\u672c\u8a9e\u3092\u52c9\u5f37\u3057\u3066\u3044\u307e\u3059"
    "\u3002\u30ab\u30e1\u30e9\u3092\u8cb7\u3044\u307e\u3057\u305f"
)
KOREAN = (
    "\uc800\ub294 \uc11c\uc6b8\uc5d0\uc11c \ud55c\uad6d\uc5b4\ub97c \uacf5\ubd80\ud569\ub2c8\ub2e4 \uc624"
    "\ub298 \ub0a0\uc528\uac00 \uc88b\uc2b5\ub2c8\ub2e4"
)
TEXTS = {
    "cp1252": GERMAN,
    "koi8-r": RUSSIAN,
    "cp1251": RUSSIAN,
    "gb18030": CHINESE,
    "big5": TAIWANESE,
    "cp932": JAPANESE,
    "euc_jp": JAPANESE,
    "euc_kr": KOREAN,
    "utf-8": GERMAN,
}


@pytest.mark.parametrize(("encoding", "text"), TEXTS.items(), ids=TEXTS)
def test_each_language_is_known_in_its_encodings(encoding, text):
    content = text.encode(encoding)
    assert likely_encoding([content, b"ascii too", content]) == encoding


def test_a_single_accent_and_a_damaged_byte():
    assert likely_encoding([b"caf\xe9\ttwo"]) == "cp1252"
    assert likely_encoding([GERMAN.encode() + b"\xff"]) == "utf-8"
    noise = random.Random(0).randbytes(4001)
    assert likely_encoding([noise]) is None


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", [GERMAN, CHINESE, RUSSIAN, "plain\ttext \U0001f600"])
def test_wide_encodings_without_a_mark(encoding, text):
    content = f"{text}\t{text}\r\n".encode(encoding) * 7
    assert likely_wide(content) == encoding
    assert likely_wide(content[:-2]) == encoding


def test_narrow_text_is_not_taken_for_a_wide_one():
    for content in (b"", b"\n", b"a\tb\n" * 97, f"{CHINESE}\n".encode() * 7, random.Random(0).randbytes(4001), bytes(64)):
        assert likely_wide(content) is None
