"""Translation by any server that speaks the OpenAI chat API (vLLM's among them)."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
from pydantic import Field, PositiveFloat, PositiveInt

from mcbench.data.audit import StageFailed
from mcbench.errors import UserError
from mcbench.files import digest, read_json, write_atomic
from mcbench.settings import Settings

_PROMPT = (
    "Translate the programming problem below into {language}. Keep formulas, numbers, names of "
    "variables, code and sample data exactly as they are, keep the layout, add nothing. Answer "
    "with the translation only.\n\n{text}"
)


class Endpoint(Settings):
    """A chat model behind an HTTP server.

    ``base_url`` ends before ``/chat/completions``, as in ``http://localhost:8000/v1``;
    ``api_key_env`` names the environment variable that holds the key, if one is needed.

    Raises:
        UserError: no URL or model, or a value out of range.
    """

    base_url: str = Field(pattern="^https?://")
    model: str = Field(min_length=1)
    api_key_env: str = ""
    timeout_s: PositiveFloat = 120.0
    attempts: PositiveInt = 4
    max_tokens: PositiveInt = 8192


class Chat:
    """Answers of an endpoint, kept on disk by model and prompt.

    Args:
        endpoint: the server.
        cache: the folder of kept answers.
        pause_s: before the second attempt; doubled for each further one.
    """

    def __init__(self, endpoint: Endpoint, cache: Path, pause_s: float = 1.0) -> None:
        self.endpoint = endpoint
        self.cache = cache
        self.pause_s = pause_s

    def ask(self, prompt: str) -> str:
        """The answer to one prompt at temperature 0.

        Raises:
            UserError: the server refuses this prompt, or answers without text.
            StageFailed: the server cannot be reached or keeps failing; nothing is lost, the same
                build goes on from here.
        """
        kept = self.cache / f"{digest([self.endpoint.model, prompt])}.json"
        if known := read_json(kept):
            return str(known["answer"])
        answer = self._request(prompt)
        write_atomic(kept, json.dumps({"model": self.endpoint.model, "answer": answer}))
        return answer

    def _request(self, prompt: str) -> str:
        reason = ""
        key = os.environ.get(self.endpoint.api_key_env) if self.endpoint.api_key_env else None
        for attempt in range(self.endpoint.attempts):
            if attempt:
                time.sleep(self.pause_s * 2 ** (attempt - 1))
            try:
                response = httpx.post(
                    f"{self.endpoint.base_url.rstrip('/')}/chat/completions",
                    json={
                        "model": self.endpoint.model,
                        "messages": [{"role": "user", "content": prompt}],
                        "temperature": 0,
                        "max_tokens": self.endpoint.max_tokens,
                    },
                    headers={"Authorization": f"Bearer {key}"} if key else {},
                    timeout=self.endpoint.timeout_s,
                )
            except httpx.HTTPError as error:
                reason = f"{type(error).__name__}: {error}"
                continue
            if response.status_code in (408, 409, 429) or response.status_code >= 500:
                reason = f"HTTP status {response.status_code}"
                continue
            return _answer(response)
        raise StageFailed(
            f"{self.endpoint.base_url} does not answer ({reason}); start the server and repeat the "
            "command: answers so far are kept"
        )


def _answer(response: httpx.Response) -> str:
    if response.status_code in (401, 403, 404):
        raise StageFailed(
            f"{response.url} answers with HTTP status {response.status_code}; check base_url, "
            "model and the key in api_key_env"
        )
    if response.status_code != 200:
        raise UserError(f"the server refused it: HTTP status {response.status_code}")
    try:
        choice: dict[str, Any] = response.json()["choices"][0]
        text = choice["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError):
        raise UserError("the server's answer has no choices[0].message.content") from None
    if choice.get("finish_reason") == "length" or not isinstance(text, str) or not text.strip():
        raise UserError("the server's answer is empty or was cut off")
    # Thinking models put their thoughts before the answer.
    return text.rpartition("</think>")[2].strip()


def translate(text: str, language: str, chat: Chat) -> str:
    """``text`` in ``language`` (its English name or code).

    Raises:
        UserError: no translation came, or one that lost numbers or code blocks.
        StageFailed: the server does not answer.
    """
    result = chat.ask(_PROMPT.format(language=language, text=text))
    lost = Counter(re.findall(r"\d+", text)) - Counter(re.findall(r"\d+", result))
    if lost:
        raise UserError(f"the translation lost the number {next(iter(lost))}")
    if text.count("```") != result.count("```"):
        raise UserError("the translation lost a code block")
    return result
