"""Environments of the ``verifiers`` package (0.4) in our episodes; nothing else needs the package.

There an environment drives: it asks an endpoint for every turn of a model. Here the rollout drives.
So episodes run in an event loop that goes on only within ``reset`` and ``step``; the endpoint, on
this machine's loopback, holds a request until the rollout has an action, and the program between
them (their harness) makes one request a turn, in this process.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from importlib import import_module
from types import ModuleType
from typing import Any

from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluator.reward import text_of
from mcbench.worlds.multi_turn import Step

HARNESS = "mcbench_harness"
_MARK = "the-reply-of-the-model"


def harness() -> Any:
    """The configuration of a harness for the agent of an environment that is played here."""
    vf, httpx = import_module("verifiers.v1"), import_module("httpx")
    results = import_module("verifiers.v1.runtimes").ProgramResult

    class Asking(vf.Harness[vf.HarnessConfig]):  # type: ignore[name-defined]
        APPENDS_SYSTEM_PROMPT = SUPPORTS_RESUME = True
        EXECUTES_CODE = NEEDS_CONTAINER = False

        async def launch(
            self,
            ctx: Any,
            trace: Any,
            runtime: Any,
            endpoint: str,
            secret: str,
            urls: Any,
            data: Any,
        ) -> Any:
            system, prompt = self.resolve_prompt(data)
            if isinstance(prompt, str):
                said = [{"role": "user", "content": prompt}]
            else:
                said = [{"role": one.role, "content": one.content} for one in prompt]
            first = [{"role": "system", "content": system}] if system else []
            async with httpx.AsyncClient(timeout=None) as client:
                answer = await client.post(
                    f"{endpoint}/chat/completions",
                    json={"model": ctx.model, "messages": first + said},
                    headers={"Authorization": f"Bearer {secret}"},
                )
            return results(int(answer.is_error), "", answer.text)

    module = ModuleType(HARNESS)
    module.__dict__.update(Asking=Asking, __all__=["Asking"])
    sys.modules[HARNESS] = module  # where the package looks for it
    return vf.HarnessConfig(id=HARNESS)


def _error_of(ended: Any) -> str:
    """Why an episode failed: an exception, or the last error that it or an agent of its noted."""
    if isinstance(ended, Exception):
        return repr(ended)
    noted = [one for part in (*getattr(ended, "traces", ()), ended) for one in part.errors]
    return f"{noted[-1].type}: {noted[-1].message}" if noted else "it notes no error"


class Verifiers:
    """An environment of theirs whose agent has :func:`harness`, with its tasks by problem id. An
    episode passed if its rewards add up to ``full``.

    A ``tokenizer`` with a chat template writes what the model is shown; without one it is shown the
    bare texts.
    """

    def __init__(
        self, environment: Any, tasks: Mapping[str, Any], full: float = 1.0, tokenizer: Any = None
    ) -> None:
        self.environment, self.tasks, self.full = environment, tasks, full
        self.tokenizer = tokenizer if getattr(tokenizer, "chat_template", None) else None

    def reset(self, problems: Sequence[Problem]) -> list[str]:
        self._loop, self._stack = asyncio.new_event_loop(), AsyncExitStack()
        self._said: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in problems]
        self._actions: list[asyncio.Queue[str]] = [asyncio.Queue() for _ in problems]
        self._episodes: list[asyncio.Task[None]] = []
        self._loop.run_until_complete(self._open([self.tasks[one.id] for one in problems]))
        first = self._loop.run_until_complete(self._next(range(len(problems))))
        for said in first:
            if not isinstance(said, list):
                raise UserError(f"an episode ended before its first turn: {_error_of(said)}")
        return list(map(self._prompt, first))

    def _prompt(self, messages: list[Any]) -> str:
        if self.tokenizer is None:
            return "\n".join([*(one["content"] for one in messages), ""])
        text = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        return str(text)

    def _observation(self, messages: list[Any]) -> str:
        """What comes after the model's last turn, whose end token it has written itself."""
        if self.tokenizer is None:
            return f"\n{messages[-1]['content']}\n"
        turns = [n for n, one in enumerate(messages) if one["role"] == "assistant"]
        marked = [*messages]
        marked[turns[-1]] = {"role": "assistant", "content": _MARK}
        return self._prompt(marked).rpartition(_MARK)[2].removeprefix(self.tokenizer.eos_token)

    def step(self, actions: Mapping[int, str], last: Collection[int]) -> dict[int, Step]:
        for i, text in actions.items():
            self._actions[i].put_nowait(text)
        found = self._loop.run_until_complete(self._next(actions))
        return {i: self._step(one) for i, one in zip(actions, found, strict=True)}

    def close(self) -> None:
        for episode in self._episodes:
            episode.cancel()
        for actions in self._actions:
            actions.put_nowait("")  # a request that still waits is let go
        self._loop.run_until_complete(self._ended())
        self._loop.close()

    async def _ended(self) -> None:
        await asyncio.gather(*self._episodes, return_exceptions=True)
        await self._stack.aclose()

    async def _next(self, places: Collection[int]) -> list[Any]:
        return await asyncio.gather(*(self._said[i].get() for i in places))

    def _step(self, said: Any) -> Step:
        """What follows from the messages that an environment sent, or from an episode's end."""
        if isinstance(said, list):
            return Step(self._observation(said), 0.0, False)
        if isinstance(said, Exception) or not said.ok:
            return Step(None, None, True, None, "IE", error=_error_of(said))
        reward = sum(trace.reward for trace in said.traces)
        return Step(None, reward, True, reward >= self.full, "AC" if reward >= self.full else "WA")

    async def _open(self, tasks: Sequence[Any]) -> None:
        web = import_module("aiohttp.web")
        server = web.Application()
        server.router.add_post("/v1/chat/completions", self._answer)
        runner = web.AppRunner(server, shutdown_timeout=1)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        await self._stack.enter_async_context(self.environment.serving())
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        self._episodes = [
            self._loop.create_task(self._play(i, task, url)) for i, task in enumerate(tasks)
        ]

    async def _play(self, place: int, task: Any, url: str) -> None:
        vf = import_module("verifiers.v1")
        client = vf.EvalClientConfig(base_url=url, api_key_var="MCBENCH_NO_KEY")
        context = vf.ModelContext(model=str(place), client=client)
        try:
            end = await self.environment.run_episode(task, context)
        except Exception as error:  # of this episode: the others go on
            end = error
        self._said[place].put_nowait(end)

    async def _answer(self, request: Any) -> Any:
        """The model's turn, in OpenAI's form: the next action of the episode that asks."""
        body = await request.json()
        place = int(body["model"])
        said = [{**one, "content": text_of([one])} for one in body["messages"]]
        self._said[place].put_nowait(said)
        reply = {"role": "assistant", "content": await self._actions[place].get()}
        choice = {"index": 0, "message": reply, "finish_reason": "stop"}
        given = {"id": "mcbench", "object": "chat.completion", "created": 0, "choices": [choice]}
        return import_module("aiohttp.web").json_response({**given, "model": body["model"]})
