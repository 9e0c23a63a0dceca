"""Load a Hugging Face checkpoint without ever running its code.

Purpose: every model is loaded by `locate` (a folder, or a hub id fetched into one) and `load`,
which read only safetensors and JSON: no pickles, no remote code, no kernels from the hub, no
adapters that name another model.
Cost: the size of the weights; a hub id is downloaded once and then read from the cache.
Caveat: half-precision checkpoints become float32, which represents their values exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

from statetrace import plugins
from statetrace.config.checks import no_folder
from statetrace.errors import StatetraceError

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
NEEDED = "config.json and model.safetensors"
GOOD_FOLDER = f"a folder with {NEEDED} (what save_pretrained writes)"
TOKENIZER = "tokenizer.json"


def load_checkpoint(folder: str | Path) -> Any:
    """The model of a checkpoint folder, in eval mode on the CPU; float64 stays float64, everything
    else becomes float32."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise StatetraceError(f"there is no folder {str(folder)!r}; give {GOOD_FOLDER}")
    _check_folder(path, weights=True)
    return load(path, load_config(path))


def locate(source: str, *, weights: bool = True) -> Path:
    """The checked local folder of a folder name or hub id, with or without its weights."""
    patterns = ["config.json", *(("model*.safetensors", WEIGHTS[1]) if weights else ())]
    folder = _folder(source, patterns, NEEDED)
    _check_folder(folder, weights)
    return folder


def locate_tokenizer(source: str) -> Path:
    """The tokenizer.json of a folder name or hub id."""
    file = _folder(source, [TOKENIZER], TOKENIZER) / TOKENIZER
    if not file.is_file():
        raise StatetraceError(
            f"{source!r} has no tokenizer.json; add that of its model, or set tokenizer to another "
            "folder or hub id"
        )
    return file


def _folder(source: str, patterns: list[str], needed: str) -> Path:
    """A local folder, or that of a hub id with the files that match the patterns; `needed` names
    the required ones in errors."""
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    if folder.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1:
        raise StatetraceError(
            f"{no_folder(source)}; give one with {needed}, or a hub id such as "
            "'EleutherAI/pythia-160m'"
        )
    return _fetch(source, patterns, needed)


def load_config(folder: Path) -> Any:
    """The configuration in a checked folder."""
    kind = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
    if kind not in transformers.CONFIG_MAPPING:
        plugins.loaded("family")  # a plug-in may register the model type with transformers
    try:
        with quiet():
            config = transformers.AutoConfig.from_pretrained(
                folder, trust_remote_code=False, local_files_only=True
            )
    except Exception as error:
        raise _unreadable(folder, error) from error
    config._attn_implementation = None  # a checkpoint may name a kernel to fetch from the hub
    if hasattr(config, "use_cache"):
        config.use_cache = False  # whole sequences need no cache
    return config


def load(folder: Path, config: Any) -> Any:
    """The model in a checked folder."""
    dtype = torch.float64 if config.dtype == torch.float64 else torch.float32
    try:
        with quiet(), torch.device("cpu"), torch.random.fork_rng(devices=[]):
            model, info = transformers.AutoModelForCausalLM.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # refused below, with a better message
            )
    except MemoryError:
        raise
    except Exception as error:
        raise _unreadable(folder, error) from error
    # transformers would initialise these at random.
    bad = sorted({*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])})
    if bad:
        raise StatetraceError(
            f"the weights in {str(folder)!r} do not match its config.json: {len(bad)} tensors are "
            f"missing or have a different shape, such as {bad[0]!r}"
        )
    for tensor in (*model.parameters(), *model.buffers()):
        # The file is mapped into memory at an offset that depends on its header, and matrix
        # products round differently at other alignments: equal weights could give different bits.
        tensor.data = tensor.data.clone()
    return model.eval()


def _fetch(source: str, patterns: list[str], needed: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        folder = snapshot_download(source, allow_patterns=patterns, ignore_patterns=["*/*"])
    except HFValidationError as error:
        raise StatetraceError(
            f"{source!r} is neither a folder nor a hub id; give a folder with {needed}, or a hub "
            "id such as 'EleutherAI/pythia-160m'"
        ) from error
    except Exception as error:
        raise StatetraceError(
            f"{no_folder(source)}, and it could not be fetched from the Hugging Face hub "
            f"({_first_line(error)}); without a network, put {needed} of that model into a folder "
            f"and give that folder instead of {source!r}"
        ) from error
    return Path(folder)


def _check_folder(folder: Path, weights: bool) -> None:
    """Refuse what cannot be loaded safely, before any library reads it."""
    name = str(folder)
    if not (folder / "config.json").is_file():
        raise StatetraceError(f"{name!r} has no config.json; give {GOOD_FOLDER}")
    try:
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        remote = [kind for kind in raw.get("auto_map") or () if kind != "AutoTokenizer"]
    except (OSError, ValueError, AttributeError) as error:
        raise _unreadable(folder, error) from error
    if remote:
        raise StatetraceError(
            f"{name!r} requires its own code (auto_map in its config.json names {remote[0]}), "
            "which is never run; give a checkpoint of an architecture that transformers includes, "
            "without auto_map"
        )
    if raw.get("quantization_config"):
        raise StatetraceError(f"{name!r} is quantized; give {GOOD_FOLDER} in full precision")
    if (folder / "adapter_config.json").is_file():
        raise StatetraceError(f"{name!r} holds an adapter; merge it into its model first")
    if weights and not any((folder / file).is_file() for file in WEIGHTS):
        pickles = sorted(file.name for file in folder.iterdir() if file.suffix in PICKLES)
        others = f"only {pickles[0]}, a pickle" if pickles else "none at all"
        raise StatetraceError(
            f"{name!r} has no weights in safetensors ({others}), and pickles, which can run code, "
            f"are never loaded; give {GOOD_FOLDER}"
        )


def _unreadable(folder: Path, error: Exception) -> StatetraceError:
    return StatetraceError(
        f"the checkpoint in {str(folder)!r} cannot be read ({_first_line(error)}); "
        f"give {GOOD_FOLDER}"
    )


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".:") if text else type(error).__name__


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the progress bar and report of transformers while it loads."""
    log = transformers.utils.logging
    bar, level = log.is_progress_bar_enabled(), log.get_verbosity()
    log.disable_progress_bar()
    log.set_verbosity_error()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bar:
            log.enable_progress_bar()
