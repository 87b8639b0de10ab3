"""A configuration is the same on both sides of a process's border, whatever its values."""

import contextlib
import io
import json
import math

import pytest

from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.files import read_data
from mcbench.runs.config import SETTINGS, Config, preset
from mcbench.runs.store import RunStore
from mcbench.scale import launch, process
from mcbench.scale.process import start
from mcbench.scale.sweep import PlannedRun, task_of

# What JSON, YAML 1.1 and YAML 1.2 do not all read alike.
NUMBERS = (0, 1, -1, 2**53 + 1, 10**30, 1.0, -0.0, 0.1 + 0.2, 1 / 3, 1e-06, 5e-05, 2.5e-7, 1e16)
NUMBERS += (1e22, 5e-324, 1.7976931348623157e308, 1e400, -math.inf, math.nan)
TEXTS = (
    *("1e5", "5e-05", "1E5", ".5", "+1", "12", "1.0", "0123", "017", "0o17", "0x1F", "1_000"),
    *("1:30", "2024-01-01", "2024-01-01 10:00:00", "on", "off", "yes", "no", "y", "true", "True"),
    *("null", "~", "", ".inf", ".nan", "NaN", "Infinity", "<<", "=", "a: b", ":", "- a", "# a"),
    *(
        "[1]",
        "{a: 1}",
        "'",
        '"',
        "*a",
        "!a",
        "%a",
        "\\",
        " a\t",
        "a\nb\n",
        "é 漢字 🙂",
        "\u2028\x85",
    ),
)
SINGLE = (*NUMBERS, *TEXTS, None, True, False)
VALUES = (
    *SINGLE,
    *([value] for value in SINGLE),
    *([[0, value]] for value in SINGLE),
    *([{value: value}] for value in TEXTS),
    *([], [2, 1], [16.0, 1e-06], ["trackio", "wandb"], [[0, "all"]], [[0, 1e-06], [4, 1.5]]),
)
BASES = [preset("tiny").model_dump(), preset("qwen3-1.7b").model_dump()]


@pytest.fixture
def read(monkeypatch):
    """What ``mcbench train`` would train with these arguments and this standard input."""
    trained = []
    monkeypatch.setattr(launch, "train_here", lambda config, *_: trained.append(config))
    monkeypatch.setattr(launch, "check_gpu", lambda _: None)  # of large models, without a GPU

    def read(*arguments, stdin=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        assert main(["train", *arguments]) == 0
        return trained.pop()

    return read


def accepted(name, values):
    """The configurations with one of the values for a setting, where it is allowed."""
    words = [word for form in Config._forms(name) for word in form.get("enum", ())]
    for base in BASES:
        for value in (*values, *words, base[name]):
            with contextlib.suppress(UserError):
                yield Config.from_dict({**base, name: value})


def assert_same(one, other):
    assert other == one
    assert repr(other) == repr(one)  # 1 is no 1.0 there, and True no 1
    assert other.run_id == one.run_id


@pytest.mark.parametrize("name", SETTINGS)
def test_every_value_of_a_setting_crosses_the_border(name, read, tmp_path):
    found = list(accepted(name, VALUES))
    assert found
    for config in found:
        text = task_of(PlannedRun("arm", "label", config), RunStore(tmp_path)).config
        assert_same(config, read("--config", "-", stdin=text))


ODD = {
    "learning_rate": 1e-06,
    "temperature_stages": [[0, 0.1 + 0.2], [4, 1e-06]],
    "model": "1e5",
    "train_set": "on",
    "test_set": "é: 漢字\n# 2024-01-01",
    "per_device_batch_size": 2,
}


def test_what_a_started_process_is_given_is_the_configuration(read, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "command", lambda task: ["cat"])
    config = preset("tiny").with_settings(ODD)
    with start(task_of(PlannedRun("arm", "label", config), RunStore(tmp_path))) as cat:
        text = cat.stdout.read()
    assert_same(config, read("--config", "-", stdin=text))


def test_what_launched_processes_are_given_is_the_configuration(read, tmp_path, monkeypatch):
    config, given = preset("tiny").with_settings(ODD), []
    monkeypatch.setattr(launch, "_launch", lambda _, words, folder: given.append(read(*words)))
    launch.train_launched(config, str(tmp_path), launch.launch("cpu"), "label")
    assert_same(config, given[0])


@pytest.mark.parametrize(
    "name", [n for n in SETTINGS if {f.get("type") for f in Config._forms(n)} & {"number"}]
)
@pytest.mark.parametrize("text", ["1e400", "-1e400", "NaN", ".inf", "-.inf", ".nan"])
def test_what_is_no_finite_number_is_refused_by_name(name, text, capsys, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(f'{{"settings": {{"{name}": {text}}}}}')
    assert main(["train", "--config", str(path), "--dry-run"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"mcbench: {name} must be ")
    assert error.count("\n") == 1


def test_a_file_means_what_a_person_means_by_it(read, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(
        "profile: tiny\nsettings:\n  learning_rate: 5e-5\n  lora_rank: ~\n  reward_workers: +2\n"
        "  vllm_server_url: on\n  gradient_checkpointing: true\n  kind_stages: [[0, all]]\n"
    )
    config = read("--config", str(path))
    assert (config.learning_rate, config.lora_rank, config.reward_workers) == (5e-5, None, 2)
    assert (config.vllm_server_url, config.kind_stages) == ("on", [[0, "all"]])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, text) for text in ("on", "no", "017", "0o17", "0x1F", "1:30", "1_000", "1e", "=")),
        *((text, text) for text in ("2024-01-01", "NaN", "Infinity", ".", "1.2.3", "٣", "1.2e")),
        *(
            ("5e-5", 5e-5),
            ("1E5", 1e5),
            ("+.5", 0.5),
            ("-12", -12),
            ("1.", 1.0),
            ("1e400", math.inf),
        ),
        *(("-.inf", -math.inf), ("True", True), ("null", None), ("~", None), ("", None)),
        *(("'on'", "on"), ('"1e5"', "1e5"), ("!!str 1e5", "1e5"), ("[1e5, on]", [1e5, "on"])),
        ("&x {y: 1}\nb: {<<: *x}", {"y": 1}),
    ],
)
def test_yaml_is_read_by_the_rules_of_1_2(text, value):
    found = read_data(f"a: {text}")["a"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["a: [", "[" * 100_000, "!!int ''", "!!timestamp x", "9" * 5000])
def test_what_is_neither_json_nor_yaml_is_told_in_a_line(text):
    with pytest.raises(UserError, match=r"^neither YAML nor JSON: ") as caught:
        read_data(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "configuration run.yaml is neither YAML nor JSON: while parsing"),
        ("1: 2", "unknown entry of run.yaml 1; allowed: profile"),
        ("profile: 1e5", "profile must be text, got 100000.0"),
        ("recipe: [grpo]", "recipe must be text, got ['grpo']"),
        ("settings: {1: 2}", "unknown setting '1'"),
        ("settings: {model: 1e5}", "model must be text, got 100000.0"),
        ("settings: {steps: 1e5}", "steps must be a whole number, got 100000.0"),
        ("settings: {learning_rate: on}", "learning_rate must be a number, got 'on'"),
        ("settings: {length_stages: [[.inf, 4]]}", "length_stages: inf is no step"),
        ("settings: {length_stages: [[0, null]]}", "is not a list of (start step, value)"),
        ("settings: {steps: 1e400%}", "steps: '1e400%' is no share"),
        ("model: tiny\nsteps: 1", "not a run configuration: 'profile' is missing"),
    ],
)
def test_a_wrong_file_is_one_sentence(text, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(text)
    assert main(["train", "--config", "run.yaml", "--dry-run"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_file_that_is_no_text_is_told(tmp_path, capsys):
    (tmp_path / "run.json").write_bytes(b"\xff\xfe")
    assert main(["train", "--config", str(tmp_path / "run.json")]) == 2
    assert "run.json is no text: 'utf-8' codec" in capsys.readouterr().err


def test_what_is_written_is_strict_json():
    for config in accepted("temperature_stages", VALUES):
        json.loads(config.to_text(), parse_constant=pytest.fail)
