"""The tokenizer of the task as text: trained on the task's sentences, or read from a file.

Purpose: a standard tokenizer.json, so that AutoTokenizer reads a checkpoint's text as its model
does. It gets special tokens: one for each state, which the model predicts, one to start a text and
one for padding.
Cost: milliseconds; for a pretrained tokenizer the time to read its file.
Caveat: only tokenizer.json is ever read, which is data and contains no code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from statetrace.errors import StatetraceError

START, PAD = "<start>", "<pad>"
MOST_WORDS = 4096
"""Far more than the sentences of any group have, so that every word becomes one token."""


def state_token(label: str) -> str:
    return f"<{label}>"


def trained(sentences: Sequence[str]) -> Tokenizer:
    """A byte-level BPE tokenizer of these sentences, the same for the same sentences."""
    tokenizer = Tokenizer(models.BPE())
    # the first word of a text gets the same token as later in the text
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=MOST_WORDS,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator([" ".join(sentences)], trainer)
    return tokenizer


def read(file: Path) -> Tokenizer:
    """Read a tokenizer.json, as transformers and tokenizers write it."""
    advice = "give a folder with a tokenizer.json as save_pretrained writes it"
    with _refusing(f"the tokenizer in '{file}' cannot be read", advice):
        return Tokenizer.from_str(file.read_text(encoding="utf-8"))


@contextmanager
def _refusing(problem: str, advice: str) -> Iterator[None]:
    """What goes wrong in the library, as one sentence. It raises Exception itself, and panics with
    a BaseException."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StatetraceError(f"{problem} ({reason}); {advice}") from None


def with_answers(tokenizer: Tokenizer, labels: Sequence[str]) -> Tokenizer:
    """A copy of a tokenizer with tokens for each state, the start and the padding added."""
    extended: Tokenizer = Tokenizer.from_str(tokenizer.to_str())
    extended.no_truncation()
    extended.no_padding()
    extended.add_special_tokens([PAD, START, *map(state_token, labels)])
    return extended


def encode(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """The tokens of a text, and nothing else."""
    with _refusing(f"the tokenizer cannot read {text!r}", "use one that knows all its characters"):
        return tuple(tokenizer.encode(text, add_special_tokens=False).ids)


def ids_of(tokenizer: Tokenizer, sentence: str) -> tuple[int, ...]:
    """The tokens of a sentence that follows another; its period must be a token."""
    before, both = encode(tokenizer, "."), encode(tokenizer, f". {sentence}")
    ids = both[len(before) :]
    if both[: len(before)] != before or tokenizer.decode(ids[-1:]).strip() != ".":
        raise StatetraceError(
            f"the tokenizer merges periods with their neighbours in '. {sentence}'; use one that "
            "keeps them separate, or none to train one on the task's sentences"
        )
    return ids


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a token that is known to exist."""
    id_ = tokenizer.token_to_id(token)
    assert id_ is not None, token
    return id_


def size_of(tokenizer: Tokenizer) -> int:
    """Rows that a model's embedding needs: one more than the largest id."""
    return 1 + max(tokenizer.get_vocab(with_added_tokens=True).values())


def files(tokenizer: Tokenizer) -> dict[str, str]:
    """The files of a checkpoint folder, by name."""
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": START,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
    }
    return {
        "tokenizer.json": tokenizer.to_str(pretty=True),
        "tokenizer_config.json": json.dumps(about, indent=2) + "\n",
    }
