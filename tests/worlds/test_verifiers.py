"""Environments of the verifiers package: failing ones made here, and, where the package is
installed, a game of its own.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import aiohttp
import pytest

from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.worlds.multi_turn import Step, play
from mcbench.worlds.tokenizer import load_tokenizer
from mcbench.worlds.verifiers import Verifiers, harness
from tests.worlds.test_turns import Script

WORD = "abba"


class Asks:
    """An environment that is a task's turns: texts that it sends, and an error that it raises."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        self.serves = True
        yield
        self.serves = False

    async def run_episode(self, task: list[Any], context: Any) -> Any:
        reward = 0.0
        for turn in task:
            if isinstance(turn, Exception):
                raise turn
            said = {"model": context.model, "messages": [{"role": "user", "content": turn}]}
            async with (
                aiohttp.ClientSession() as session,
                session.post(f"{context.client.base_url}/chat/completions", json=said) as answer,
            ):
                reply = await answer.json()
            reward = float(reply["choices"][0]["message"]["content"])
        return SimpleNamespace(ok=True, traces=[SimpleNamespace(reward=reward)])


@pytest.fixture
def asks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The names that ours takes from the package are plain records here."""
    module = ModuleType("verifiers.v1")
    module.__dict__.update(EvalClientConfig=SimpleNamespace, ModelContext=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "verifiers", ModuleType("verifiers"))
    monkeypatch.setitem(sys.modules, "verifiers.v1", module)
    return Asks()


def named(*names: str) -> list[Problem]:
    return [Problem(id=name, statement="x", form="stdin") for name in names]


def test_an_episode_that_fails_is_no_reward_and_the_others_go_on(asks: Any) -> None:
    tasks = {"good": ["a", "b"], "bad": ["a", RuntimeError("boom")], "lost": ["a"]}
    environment = Verifiers(asks, tasks)
    assert environment.reset(named(*tasks)) == ["a\n"] * 3
    failed = Step(None, None, True, None, "IE", error="RuntimeError('boom')")
    assert environment.step({0: "0", 1: "1", 2: "0.5"}, ()) == {
        0: Step("\nb\n", 0.0, False), 1: failed, 2: Step(None, 0.5, True, False, "WA"),
    }  # fmt: skip
    assert environment.step({0: "1"}, ()) == {0: Step(None, 1.0, True, True, "AC")}
    environment.close()
    assert not asks.serves


def test_an_episode_without_a_first_turn_is_told_and_all_is_closed(asks: Any) -> None:
    environment = Verifiers(asks, {"good": ["a"], "bad": [RuntimeError("boom")]})
    with pytest.raises(UserError, match=r"before its first turn: RuntimeError\('boom'\)"):
        play(environment, named("good", "bad"), Script([]), load_tokenizer(), 8)
    assert environment._loop.is_closed()
    assert not asks.serves


def test_a_rollout_closes_what_it_could_not_begin_or_finish(asks: Any) -> None:
    environment = Verifiers(asks, {"good": ["a"]})
    with pytest.raises(KeyError, match="bad"):
        play(environment, named("good", "bad"), Script([]), load_tokenizer(), 8)
    assert environment._loop.is_closed()

    def fails(*arguments: Any) -> Any:
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        play(environment, named("good"), fails, load_tokenizer(), 8)
    assert environment._loop.is_closed()
    assert not asks.serves


class Template:
    """A tokenizer that has a chat template."""

    eos_token = chat_template = "<end>"

    def apply_chat_template(
        self, messages: Any, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        turns = [f"<{one['role']}>{one['content'].strip()}<end>\n" for one in messages]
        return "".join([*turns, "<assistant>"])


def test_a_chat_template_writes_what_the_model_is_shown(asks: Any) -> None:
    environment = Verifiers(asks, {"a": ["one", "two"]}, tokenizer=Template())
    assert environment.reset(named("a")) == ["<user>one<end>\n<assistant>"]
    said = [("user", "one"), ("assistant", " a "), ("user", "two")]
    messages = [{"role": role, "content": text} for role, text in said]
    assert environment._observation(messages) == "\n<user>two<end>\n<assistant>"
    environment.close()


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Their environment of one turn, for tasks of ours that our judge rewards."""
    vf = pytest.importorskip("verifiers.v1", reason="verifiers is not installed, or before 0.4")
    from verifiers.v1.envs.single_agent.env import SingleAgentEnv, SingleAgentEnvConfig

    class Data(vf.TaskData):  # type: ignore[name-defined, misc]
        tests: str
        form: str = "call"
        fn_name: str = "twice"

    class Tools(vf.Toolset):  # type: ignore[name-defined, misc]
        @vf.tool  # type: ignore[untyped-decorator]
        async def look(self) -> str:
            """Look."""
            return "nothing"

    class Program(vf.Task[Data]):  # type: ignore[name-defined, misc, valid-type]
        pass

    class WithTools(vf.Task[Data]):  # type: ignore[name-defined, misc, valid-type]
        @classmethod
        def toolsets(cls, config: Any) -> list[Any]:
            return [Tools(vf.ToolsetConfig())]

    class Programs(vf.Taskset[Program, vf.TasksetConfig]):  # type: ignore[name-defined, misc]
        def load(self) -> Any:
            rewards = {"code": {"fn": "mcbench.evaluator.adapters:verifiers_reward"}}
            config = vf.TaskConfig(rewards=rewards)
            yield Program(Data(prompt="p", tests='[{"args": [2], "expected": 4}]'), config)
            yield Program(Data(prompt="p", tests="{}"), config)
            yield WithTools(Data(prompt="p", tests="[]"), config)

    module = ModuleType("some_programs")
    module.__dict__.update(Programs=Programs, __all__=["Programs"])
    monkeypatch.setitem(sys.modules, module.__name__, module)
    agent = vf.AgentConfig(harness=harness(), runtime=vf.SubprocessConfig())
    taskset = vf.TasksetConfig(id=module.__name__)
    environment = SingleAgentEnv(SingleAgentEnvConfig(taskset=taskset, agent=agent))
    tasks = dict(zip(("good", "no tests", "tools"), environment.taskset, strict=True))
    return Verifiers(environment, tasks)


def test_programs_are_judged_in_an_environment_of_theirs(programs: Any) -> None:
    assert programs.reset(named("good", "good", "no tests")) == ["p\n"] * 3
    right = "```python\ndef twice(x): return 2 * x\n```"
    steps = programs.step({0: right, 1: "no program", 2: right}, ())
    assert [(one.reward, one.verdict) for one in steps.values()] == [
        (1.0, "AC"), (0.0, "WA"), (None, "IE")
    ]  # fmt: skip
    assert "must hold a list of tests" in steps[2].error
    programs.close()


def test_tools_are_refused_with_a_sentence(programs: Any) -> None:
    with pytest.raises(UserError, match=r"first turn: .* does not support MCP tools"):
        programs.reset(named("tools"))
    programs.close()


@pytest.fixture
def hangman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Their environment and its first task; the words, which it would load, are one of our own."""
    vf = pytest.importorskip("verifiers.v1", reason="verifiers is not installed, or before 0.4")
    nltk = pytest.importorskip("nltk", reason="the games of verifiers need verifiers[ta]")
    pytest.importorskip("textarena", reason="the games of verifiers need verifiers[ta]")
    for name in ("en", "en-basic"):
        (tmp_path / "corpora" / "words").mkdir(parents=True, exist_ok=True)
        (tmp_path / "corpora" / "words" / name).write_text(f"{WORD}\n")
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    monkeypatch.setattr(nltk, "download", lambda *names, **how: False)
    from verifiers.v1.tasksets.textarena import TextArenaConfig, TextArenaEnv, TextArenaEnvConfig

    agent = vf.AgentConfig(harness=harness(), runtime=vf.SubprocessConfig())
    taskset = TextArenaConfig(id="textarena", game="Hangman-v0")
    return TextArenaEnv(TextArenaEnvConfig(taskset=taskset, player=agent))


@pytest.mark.slow
def test_a_game_of_theirs_in_our_rollout(hangman: Any) -> None:
    (task,) = islice(hangman.taskset, 1)
    problem = Problem(id="hangman/0", statement=task.data.prompt, form="stdin")
    turns = ["[z]", "nothing", "[y]"]
    script = Script(["[a]", "[abba]", turns[0]], ["[b]", turns[1]], [turns[2]])
    environment, tokenizer = Verifiers(hangman, {problem.id: task}), load_tokenizer()
    spent = sum(len(tokenizer(text)["input_ids"]) + 1 for text in turns)
    played = play(environment, [problem] * 3, script, tokenizer, spent)
    letters, word, lost = played.episodes
    assert "You are playing Hangman" in tokenizer.decode(letters.prompt)
    assert "  A   _   _   A" in letters.turns[0]["observation"]
    assert [(one.reward, one.passed, len(one.turns)) for one in (letters, word)] == [
        (1.0, True, 2), (1.0, True, 1)
    ]  # fmt: skip
    assert not letters.truncated
    # wrong, no move at all, wrong: what it may write is spent, and the game is not over
    assert (lost.reward, lost.passed, lost.truncated, len(lost.turns)) == (0.0, False, True, 3)
    assert "  _   _   _   _" in lost.turns[0]["observation"]
    assert lost.turns[1]["observation"].strip()
    assert letters.spent == sum(len(tokenizer(one)["input_ids"]) + 1 for one in ("[a]", "[b]"))
