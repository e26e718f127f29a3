# SPDX-License-Identifier: Apache-2.0
"""Tokenizer cases from the Hugging Face tokenizers library: `export_tokenizer_cases.py OUT_DIR` trains small tokenizers of
several kinds and writes tokenizer.json and cases.json for each; `export_tokenizer_cases.py --cases FOLDER` writes the
cases of a tokenizer.json that is there already. Made with tokenizers 0.23.3.
"""
import json
import pathlib
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = [
    "", " ", "  ", "\n", "\t\n  x", "Hello world", "Hello  world  ", " leading", "trailing ", "DON'T don't I'LL we'Ve it'\u017f",
    "1234567890", "12 345 6789", "\u0661\u0662\u0663 \u00bd \u2167 \uff11", "a\n\n\nb", "a \n b", "def f(x):\n    return x**2  # sq\n",
    "Gr\u00fc\u00dfe, na\u00efve caf\u00e9", "e\u0301 vs \u00e9", "\u1112\u1161\u11ab \ud55c", "\u212b \u2126 \ufb01 \u2460", "\u5317\u4eac\u5927\u5b66\u7684\u5b66\u751f",
    "\u6771\u4eac\u30bf\u30ef\u30fc", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u0645\u0631\u062d\u0628\u0627", "\u0928\u092e\u0938\u094d\u0924\u0947", "\U0001f44b\U0001f3fd \U0001f469\u200d\U0001f467",
    "\u200b\u200d\ufeff", "A\u00a0B\u3000C\u2028D\u0085E\u180eF", "x" * 120, "ab" * 60, " " * 40, "\x00\x01\x7f", "<|begin|>hi<|end|>",
    "user <|beg in|> text", "<s>", "</s> <unk>", "\r\nwindows\r\n", "MiXeD CaSe", "https://example.org/a?b=c&d=%20e#f",
    "{\"k\": [1, 2.5, null]}", "$1,234.56 (20%)", "a word. swordfish words word", "keep [L] left, [R] right and [LR] both  [LR]  [R]  [L]",
    "Foo Bar foo bar", "\u2581under\u2581\u2581score \u2581", "\U00031350 \U00010d50 \ufffd", "<0x0A><0xFF>",
]
ENGLISH = ("In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness was "
           "upon the face of the deep. And God said, Let there be light: and there was light. don't can't we'll it's I'm ") * 3
OTHERS = "Gr\u00fc\u00dfe aus K\u00f6ln, na\u00efve caf\u00e9 \u5317\u4eac\u5927\u5b66 \u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 \u0645\u0631\u062d\u0628\u0627 foo_bar(x) 1234 5678 3.14\n\n    return\n"
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
SPECIAL = ["<|begin|>", "<|end|>"]


def byte_level(splitter, normalizer=None, vocabulary=420):
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splitter)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([ENGLISH, OTHERS] * 4, trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=SPECIAL, show_progress=False))
    return tokenizer


def split_then_bytes(pattern):
    return [pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


def metaspace():
    """The newer spelling of Llama-2's kind, its byte tokens not special as in real models."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator([ENGLISH, OTHERS] * 4, trainers.BpeTrainer(
        vocab_size=480, limit_alphabet=60, special_tokens=["<unk>", "<s>", "</s>", *byte_tokens], show_progress=False))
    node = json.loads(tokenizer.to_str())
    node["added_tokens"] = [token for token in node["added_tokens"] if token["content"] not in byte_tokens]
    tokenizer = Tokenizer.from_str(json.dumps(node))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B </s>",
                                                             special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


def digits_and_added_tokens():
    """SmolLM2's splitting, and added tokens with every flag."""
    tokenizer = byte_level([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)],
                           normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()]))
    tokenizer.add_tokens([AddedToken("word", single_word=True, normalized=False), AddedToken("[L]", lstrip=True, normalized=False),
                          AddedToken("[R]", rstrip=True, normalized=False), AddedToken("Foo Bar", normalized=True)])
    tokenizer.add_special_tokens([AddedToken("[LR]", lstrip=True, rstrip=True, normalized=False)])
    tokenizer.post_processor = processors.RobertaProcessing(("<|end|>", 1), ("<|begin|>", 0))
    return tokenizer


def write_cases(tokenizer, folder):
    rows = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        rows.append({"text": text, "ids": ids, "ids_without_special": tokenizer.encode(text, add_special_tokens=False).ids,
                     "decoded": tokenizer.decode(ids, skip_special_tokens=True),
                     "decoded_with_special": tokenizer.decode(ids, skip_special_tokens=False)})
    lines = ",\n".join(json.dumps(row) for row in rows)
    (folder / "cases.json").write_text(f"[\n{lines}\n]\n")


def main():
    if sys.argv[1] == "--cases":
        folder = pathlib.Path(sys.argv[2])
        return write_cases(Tokenizer.from_file(str(folder / "tokenizer.json")), folder)
    made = {"qwen": byte_level(split_then_bytes(QWEN), normalizers.NFC()), "o200k": byte_level(split_then_bytes(O200K)),
            "metaspace": metaspace(), "added": digits_and_added_tokens()}
    for name, tokenizer in made.items():
        folder = pathlib.Path(sys.argv[1]) / f"tokenizer-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        write_cases(tokenizer, folder)


if __name__ == "__main__":
    main()
