"""Running a notebook in batch, with parameters checked against its ``parameters`` cell.

papermill itself only warns about an unknown parameter, turns a tuple into a string and records no
defaults; here those are errors, and the resolved parameters are kept in the output notebook.
Notebooks have :func:`check_injected` called (by
:func:`mcbench.report.dashboard.arm_form.workbench`), so that plain papermill refuses wrong
parameters too.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcbench.errors import FailedError, UserError, unknown


class Parameters(dict[str, Any]):
    """Names and defaults of a ``parameters`` cell; ``kinds`` has the types that comments give, as
    papermill reads them: ``steps = None  # type: int``.
    """

    kinds: Mapping[str, str] = {}


def read_notebook(path: str | Path) -> Any:
    """A notebook as nbformat has it.

    Raises:
        UserError: there is none.
    """
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise UserError(f"notebook {path} does not exist") from None
    except Exception as error:  # nbformat raises several unrelated types for a damaged file
        raise UserError(f"{path} is not a notebook: {error}") from error


def notebook_parameters(path: str | Path) -> Parameters:
    """The notebook's ``parameters`` cell.

    Raises:
        UserError: no such notebook, no cell tagged ``parameters``, or a default that is no literal.
    """
    notebook = read_notebook(path)
    cells = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if not cells:
        raise UserError(f"notebook {path} has no cell tagged 'parameters'")
    return assignments(cells[0].source, path)


# `steps = None  # type: int`, or `steps: int | None = None`
_KIND = r"^(\w+)(?= *(?:=.*# *type:|:)) *(?:=.*# *type: *|: *)(\w+)"


def assignments(source: str, path: str | Path) -> Parameters:
    """Names and defaults of a ``parameters`` cell from its source; errors as above."""
    defaults = Parameters()
    defaults.kinds = dict(re.findall(_KIND, source, re.MULTILINE))
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            value = node.value  # type: ignore[attr-defined]
            if not isinstance(target, ast.Name) or value is None:
                continue
            try:
                defaults[target.id] = ast.literal_eval(value)
            except ValueError:
                raise UserError(
                    f"the default of parameter {target.id!r} in {path} must be a literal"
                ) from None
    return defaults


def check_parameters(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults with the given values in their place.

    A default of None accepts None and what the type in its comment allows, any value without one.

    Raises:
        UserError: an unknown name, a value of another type than the default, or a value that is
            no JSON.
    """
    kinds = getattr(defaults, "kinds", {})
    for name, value in given.items():
        if name not in defaults:
            raise unknown("notebook parameter", name, defaults)
        _check_json(name, value)
        _check_like(name, value, defaults[name], kinds.get(name))
    return {**defaults, **given}


def _check_json(name: str, value: Any) -> None:
    try:
        same = json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError):
        same = False
    if not same:
        raise UserError(
            f"parameter {name!r} must be JSON: a text, a number, true, false, null, or lists and "
            f"objects of these, got {value!r}"
        )


_NAMES = {
    "list": "a list",
    "dict": 'an object (JSON such as {"mine": {"mask_ratio": 0.5}})',
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}


def _check_like(name: str, value: Any, default: Any, kind: str | None) -> None:
    if default is None:
        if value is None or kind is None:
            return
        like = ""
    else:
        kind, like = type(default).__name__, f" such as {default!r}"
    as_float = kind == "float" and type(value) is int
    if type(value).__name__ != kind and not as_float:
        wanted = _NAMES.get(kind, kind)
        like = "" if kind in ("bool", "dict") else like
        raise UserError(f"parameter {name!r} must be {wanted}{like}, got {value!r}")


def check_injected() -> dict[str, Any]:
    """Refuse wrong parameters in a notebook that plain papermill executes.

    The first cell after the parameters calls this. papermill puts its values into a cell of its own
    between the two, under the comment "# Parameters"; without such a cell there is nothing to
    check. Its ``-p`` option knows no lists, so the text of a list is read as one.

    Returns:
        All parameters with their values; empty where papermill injected none.

    Raises:
        UserError: as :func:`check_parameters`.
    """
    from IPython import get_ipython

    shell = get_ipython()
    cells = shell.user_ns["In"] if shell else []
    injected = [n for n, source in enumerate(cells) if source.startswith(_INJECTED)]
    if not injected:
        return {}
    number = injected[-1]
    defaults = assignments(cells[number - 1], "this notebook")
    given = assignments(cells[number], "this notebook")
    for name, value in given.items():
        if isinstance(value, str) and not isinstance(defaults.get(name, ""), str):
            with contextlib.suppress(ValueError):
                given[name] = json.loads(value)
    resolved = check_parameters(defaults, given)
    shell.user_ns.update(given)
    return resolved


_INJECTED = "# Parameters\n"


def run_notebook(
    path: str | Path, parameters: Mapping[str, Any], output: str | Path, quiet: bool = False
) -> dict[str, Any]:
    """Execute a notebook, showing what its cells print unless ``quiet``, and save it with outputs
    to ``output``.

    Returns:
        All parameters with their values, defaults included.

    Raises:
        UserError: wrong parameters, or a cell raised UserError; no notebook is left.
        FailedError: a cell failed or stopped the notebook early, or the kernel died.
    """
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError
    from traitlets.config import Config

    resolved = check_parameters(notebook_parameters(path), parameters)
    output = Path(output)
    created = [path for path in (output, *output.parents) if not path.exists()]
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Parallel kernels race for TCP ports; sockets in a folder of their own cannot.
        with tempfile.TemporaryDirectory(prefix="mcbench-") as sockets:
            manager = {"transport": "ipc", "ip": f"{sockets}/kernel"}
            # Interrupted, its kernel would tell how its sockets were closed under it.
            quietly = {"extra_arguments": ["--log-level=CRITICAL"]}
            notebook = papermill.execute_notebook(
                str(path),
                str(output),
                parameters=dict(parameters),
                progress_bar=False,
                **({} if quiet else {"stdout_file": sys.stdout, "stderr_file": sys.stderr}),
                config=Config({"KernelManager": manager, "NotebookClient": quietly}),
            )
    except papermill.PapermillExecutionError as error:
        if error.ename == "UserError":
            _remove(created)
            raise UserError(error.evalue) from None
        raise FailedError(
            f"cell {error.cell_index} of {path} failed with {error.ename}: {error.evalue}; "
            f"see {output}"
        ) from error
    except DeadKernelError as error:
        raise FailedError(
            f"the kernel running {path} died (out of memory, or killed); see {output}"
        ) from error
    _refuse_early_exit(notebook, path, output)
    notebook.metadata["mcbench"] = {"parameters": resolved}
    nbformat.write(notebook, output)
    return resolved


def _remove(created: list[Path]) -> None:
    """The new notebook and the new folders above it, the innermost first, where they are empty."""
    for path in created:
        if path.is_dir():
            with contextlib.suppress(OSError):
                path.rmdir()
        else:
            path.unlink(missing_ok=True)


def _refuse_early_exit(notebook: Any, path: str | Path, output: Path) -> None:
    """papermill counts ``exit(0)`` in a cell as success, although the rest never ran."""
    for index, cell in enumerate(notebook.cells):
        for result in cell.get("outputs", []):
            if result.output_type == "error" and result.ename == "SystemExit":
                raise FailedError(
                    f"cell {index} of {path} ended the notebook with SystemExit; see {output}"
                )
