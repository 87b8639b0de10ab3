"""The files of a source: in a local folder, or on the Hugging Face hub, fetched one by one.

Downloads go through the hub's own client, so they are cached, and one that broke off goes on where
it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from mcbench.data.audit import shorten
from mcbench.data.collect.rows import SUFFIXES, Disappeared
from mcbench.errors import UserError
from mcbench.files import file_digest

OFFLINE = "path in a configuration, --data PATH or NAME:PATH on the command line"


@dataclass(frozen=True)
class SourceFile:
    """One file of a set: its name, what identifies its content, and how files of the set are got.

    ``get`` takes the path of a file in the set and raises :class:`Disappeared` when that can no
    longer be had.
    """

    name: str
    identity: str
    get: Callable[[str], Path]


def local_files(path: Path, patterns: Sequence[str]) -> list[SourceFile]:
    """A file, or those of a folder that match the patterns, in the patterns' order.

    A pattern matches a path relative to the folder or the end of one. Without patterns all data
    files are taken.

    Raises:
        UserError: nothing there, or nothing that matches.
    """
    if path.is_file():
        return [_local(path.parent, path.name)]
    if not path.is_dir():
        raise UserError(
            f"{path} does not exist; name a file or folder ({OFFLINE}), or leave it out to read "
            "the hub"
        )
    below = (p.relative_to(path) for p in sorted(path.rglob("*")) if _is_data(p))
    # What a download keeps beside the files is none of them.
    names = [p.as_posix() for p in below if ".cache" not in p.parts]
    chosen = _matching(names, patterns)
    if not chosen:
        found = ", ".join(names[:8]) or f"no {', '.join(SUFFIXES)} files"
        wanted = " or ".join(patterns) or "data files"
        raise UserError(f"{path} holds no {wanted}; found: {found}")
    return [_local(path, name) for name in chosen]


def local_folder(path: Path) -> SourceFile:
    """A folder of problem packages; names and contents of all files in it identify it.

    Raises:
        UserError: no folder.
    """
    if not path.is_dir():
        raise UserError(f"{path} is no folder; name one with problem packages")
    files = (p for p in sorted(path.rglob("*")) if p.is_file() and not p.is_symlink())
    lines = (f"{p.relative_to(path)} {file_digest(p)}" for p in files)
    return SourceFile(".", "\n".join(lines), path.joinpath)


def _is_data(path: Path) -> bool:
    return path.name.endswith(SUFFIXES) and path.is_file()


def _local(folder: Path, name: str) -> SourceFile:
    def get(name: str) -> Path:
        if not (folder / name).is_file():
            raise Disappeared(f"{folder / name} does not exist")
        return folder / name

    return SourceFile(name, f"{name} {file_digest(folder / name)}", get)


def _matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Names that match, by pattern; within a pattern in the order of the names."""
    found = (
        name
        for pattern in patterns or ["*"]
        for name in sorted(names)
        if fnmatchcase(name, pattern) or fnmatchcase(name, f"*/{pattern}")
    )
    return list(dict.fromkeys(found))


def hub_files(
    repo: str, revision: str, patterns: Sequence[str], endpoint: str | None = None
) -> list[SourceFile]:
    """The files of a data set on the hub that match the patterns, at one commit.

    Raises:
        UserError: the hub cannot be reached, or the data set is not there, needs a login or holds
            no such file.
    """
    from huggingface_hub import HfApi, hf_hub_download

    try:
        about = HfApi(endpoint=endpoint).dataset_info(repo, revision=revision)
    except Exception as error:  # the client has its own, httpx's and requests' kinds
        raise UserError(
            f"the data set {repo} (revision {revision}) cannot be read from the hub: "
            f"{_reason(error)}. Offline: put {' or '.join(patterns) or 'its files'} in a folder "
            f"and name that ({OFFLINE})"
        ) from error
    names = [file.rfilename for file in about.siblings or []]
    data = [name for name in names if name.endswith(SUFFIXES)]
    chosen = _matching(data, patterns)
    if not chosen:
        found = ", ".join(data[:8]) or "no data files"
        raise UserError(
            f"{repo} at revision {revision} has no {' or '.join(patterns) or 'data file'}; "
            f"found: {found}. Its layout has changed: name a revision that still has it"
        )
    commit = about.sha or revision

    def get(name: str) -> Path:
        try:
            return Path(
                hf_hub_download(repo, name, repo_type="dataset", revision=commit, endpoint=endpoint)
            )
        except Exception as error:
            raise Disappeared(f"{name} cannot be fetched ({_reason(error)})") from error

    return [SourceFile(name, f"{repo}@{commit} {name}", get) for name in chosen]


def _reason(error: Exception) -> str:
    """What happened, for people: the client's messages run over many lines."""
    known = {
        "GatedRepoError": "it needs a login (hf auth login) and its terms accepted",
        "RepositoryNotFoundError": "there is no such data set, or it needs a login",
        "RevisionNotFoundError": "there is no such revision",
        "OfflineModeIsEnabled": "offline mode is on (HF_HUB_OFFLINE)",
        "LocalEntryNotFoundError": "no connection, and it is not in the cache",
        "ConnectError": "no connection",
        "ConnectTimeout": "no connection",
    }
    name = type(error).__name__
    return known.get(name) or shorten(f"{name}: {error}", 160)
