"""Load a Hugging Face checkpoint without ever running its code.

Purpose: every model is loaded by `locate` (a folder, or a hub id fetched into one) and `load`,
which read only safetensors and JSON: no pickles, no remote code, no kernels from the hub, no
adapters that name another model.
Cost: the size of the weights; a hub id is downloaded once and then read from the cache.
Caveat: half-precision checkpoints become float32, which represents their values exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import torch

from statetrace import plugins
from statetrace.config.checks import check_not_file, no_folder
from statetrace.errors import StatetraceError
from statetrace.files import read_json
from statetrace.models.plain import plain

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
SUFFIX = ".safetensors"
LAYERS = "num_hidden_layers"
BUFFERS = (".masked_bias", ".inv_freq")
"""Constants that older versions of transformers stored beside the weights."""
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
NEEDED = "config.json and model.safetensors"
GOOD_FOLDER = f"a folder with {NEEDED} (what save_pretrained writes)"
TOKENIZER = "tokenizer.json"


def load_checkpoint(folder: str | Path, light: bool = False) -> Any:
    """The model of a checkpoint folder, in eval mode on the CPU; float64 stays float64, everything
    else becomes float32. `light` allows a PlainModel, which has no hooks."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise StatetraceError(f"there is no folder {str(folder)!r}; give {GOOD_FOLDER}")
    _check_folder(path, weights=True)
    return (plain(path) if light else None) or load(path, load_config(path))


def locate(source: str, *, weights: bool = True) -> Path:
    """The checked local folder of a folder name or hub id, with or without its weights."""
    patterns = ["config.json", *(("model*.safetensors", WEIGHTS[1]) if weights else ())]
    folder = _folder(source, patterns, NEEDED)
    _check_folder(folder, weights)
    return folder


def locate_tokenizer(source: str, fetch: bool = True) -> Path:
    """The tokenizer.json of a folder name or, if it may be fetched, of a hub id."""
    if not fetch and not Path(source).expanduser().is_dir():
        raise StatetraceError(
            f"there is no folder {source!r}, and opening a run fetches nothing; put the "
            "tokenizer.json that it was trained with into the checkpoint"
        )
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
    check_not_file(source)
    if folder.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1:
        raise StatetraceError(
            f"{no_folder(source)}; give one with {needed}, or a hub id such as "
            "'EleutherAI/pythia-160m'"
        )
    return _fetch(source, patterns, needed)


def load_config(folder: Path) -> Any:
    """The configuration in a checked folder."""
    import transformers

    if read_json(folder / "config.json").get("model_type") not in transformers.CONFIG_MAPPING:
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
    import transformers

    dtype = torch.float64 if config.dtype == torch.float64 else torch.float32
    try:
        with quiet(), torch.device("cpu"), torch.random.fork_rng(devices=[]):
            _check_size(folder, config)
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
    # transformers would initialise missing ones at random and leave unexpected ones out
    wrong_shape = {key for key, *_ in info["mismatched_keys"]}
    unexpected = {key for key in info["unexpected_keys"] if not key.endswith(BUFFERS)}
    bad = sorted({*info["missing_keys"], *unexpected, *wrong_shape})
    if bad:
        raise StatetraceError(
            f"the weights in {str(folder)!r} do not match its config.json: {len(bad)} tensors are "
            f"missing, not in its model or of a different shape, such as {bad[0]!r}"
        )
    for name, tensor in model.named_parameters():
        if not tensor.isfinite().all():
            raise StatetraceError(
                f"the weights in {str(folder)!r} are not all finite numbers: {name!r} has "
                f"{int((~tensor.isfinite()).sum()):,} that are not"
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
        raw = read_json(folder / "config.json")
        if not isinstance(raw.get("model_type", ""), str):
            raise ValueError(f"model_type {raw['model_type']!r} in its config.json is not a name")
    except (OSError, ValueError) as error:
        raise _unreadable(folder, error) from error
    auto_map = raw.get("auto_map") or {}
    if auto_map and not (isinstance(auto_map, dict) and auto_map.keys() <= {"AutoTokenizer"}):
        raise StatetraceError(
            f"{name!r} requires its own code (auto_map in its config.json is {auto_map!r:.80}), "
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
    if weights:
        _check_index(folder)


def _check_index(folder: Path) -> None:
    """Refuse an index of weights that leads out of the folder or to anything but safetensors."""
    file = folder / WEIGHTS[1]
    if (folder / WEIGHTS[0]).is_file() or not file.is_file():
        return
    try:
        shards = set(read_json(file)["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise _unreadable(folder, error) from error
    for shard in shards:
        if not isinstance(shard, str) or Path(shard).name != shard or Path(shard).suffix != SUFFIX:
            raise StatetraceError(
                f"{str(file)!r} names {shard!r:.80}; shards are files ending in {SUFFIX} in the "
                "same folder"
            )


def _check_size(folder: Path, config: Any) -> None:
    """Refuse a config.json that describes a much larger model than the file holds, before anything
    is allocated."""
    import transformers

    tensors = numbers = 0
    for file in folder.glob(f"*{SUFFIX}"):
        with safetensors.safe_open(file, "pt") as content:
            shapes = [content.get_slice(name).get_shape() for name in content.keys()]  # noqa: SIM118
        tensors, numbers = tensors + len(shapes), numbers + sum(map(math.prod, shapes))
    for field in (LAYERS, "num_attention_heads", "hidden_size", "vocab_size"):
        value = getattr(config.get_text_config(), field, 1)
        if not isinstance(value, int) or value < 1 or (field == LAYERS and value > tensors):
            raise ValueError(f"{field} is {value!r}, and there are {tensors} tensors")
    with torch.device("meta"):
        described = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    size = sum(parameter.numel() for parameter in described.parameters())
    if size > 2 * numbers:  # tied matrices may be stored once
        raise ValueError(
            f"its config.json describes {size:,} parameters, and its weights are {numbers:,}"
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
    import transformers

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
