"""Process: statements as a person would type them, and every change in the log."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mcbench.data import Problem
from mcbench.data.audit import StageFailed
from mcbench.data.language import detect_language
from mcbench.data.latex import has_latex, latex_to_text
from mcbench.data.process import Process, ProcessConfig
from mcbench.data.text import html_to_text, is_html
from mcbench.data.translate import Chat, Endpoint
from mcbench.errors import UserError
from mcbench.worlds.problems import load_split


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>At most 10<sup>5</sup> of a<sub>i+1</sub></p>", "At most 10^5 of a_(i+1)"),
        ("<p>if a < b and c &lt; d use vector<int></p>", "if a < b and c < d use vector<int>"),
        ("<p>x</p><pre>1 2\n3 < 4\n</pre>", "x\n\n```\n1 2\n3 < 4\n```"),
        ("<ul><li>one</li><li>two</li></ul>", "- one\n- two"),
        ("<p>a*b*c and <b>n_x</b><script>alert(1)</script></p>", "a*b*c and n_x"),
        ("one<br/>two<br>three", "one\ntwo\nthree"),
    ],
)
def test_html(html, text):
    assert html_to_text(html) == text


@pytest.mark.parametrize("text", ["if a <b and c> d", "x<i>y", "map<int, a>", "1 < 2 > 0"])
def test_what_only_looks_like_html(text):
    assert not is_html(text)


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"$1 \le n \le 10^{18}$", "1 ≤ n ≤ 10^18"),
        (r"$1\le n\le 5$", "1 ≤ n ≤ 5"),
        (r"$2^{n-1}$ and $a_{i_{1}}$", "2^(n-1) and a_(i_1)"),
        (r"$\frac{a+b}{2}$", "(a+b)/2"),
        (r"$\sqrt{x+1}$, \(x^2\)", "sqrt(x+1), x^2"),
        (r"$S = \texttt{ab}$, 50% of $n$", "S = ab, 50% of n"),
        (r"$$$n$$$ is \textbf{not} zero", "n is not zero"),
        (r"$x \bmod 7$", "x mod 7"),
        ("`$x$ \\le` stays", "`$x$ \\le` stays"),
    ],
)
def test_latex(latex, text):
    assert latex_to_text(latex) == text


@pytest.mark.parametrize("text", ["costs $5 and he has $7 left", r"C:\new\texts", r"\n is newline"])
def test_what_only_looks_like_latex(text):
    assert not has_latex(text)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Given an array of n integers, print the largest sum of a contiguous part of it.", "en"),
        ("Дано целое число n, найдите сумму всех его делителей и выведите её.", "ru"),
        ("给定两个整数 a 和 b，输出它们的和。", "zh"),
        ("N 個の整数が与えられます。合計を出力してください。", "ja"),
        ("Dado un arreglo de enteros, imprima la suma de los elementos pares del arreglo.", "es"),
        ("in 5 out 10", ""),
        ("", ""),
    ],
)
def test_language(text, language):
    assert detect_language(text) == language


# The stage ---------------------------------------------------------------------------------------

SENTENCE = "Read the number n from the input and print the sum of all numbers from one up to n"


def process(statement, config=None, form="stdin", **fields):
    record = Problem(id="p", statement=statement, form=form, **fields)
    kept, log = Process(config or ProcessConfig()).run([record])
    return (kept[0] if kept else None), {(e.rule, e.action): e.detail for e in log}


def test_nano_statements_keep_their_bytes():
    given = [
        Problem(p.id, p.statement, p.form, p.tests, p.fn_name or "") for p in load_split("test")
    ]
    kept, _ = Process().run(given)
    assert [r.statement for r in kept] == [p.statement for p in given]


@pytest.mark.parametrize(
    ("statement", "rule", "text"),
    [
        (f"{SENTENCE} â€“ itâ€™s easy.", "unicode", f"{SENTENCE} – it’s easy."),
        (f"\ufeff{SENTENCE}\u200b.", "unicode", f"{SENTENCE}."),
        (f"{SENTENCE}.\nSource: Some Judge\nAccepted: 12\n", "noise", f"{SENTENCE}.\n"),
        (f"{SENTENCE}, see [this](https://a.b/c).", "noise", f"{SENTENCE}, see this."),
        (f"{SENTENCE}.  \r\n\r\n\r\n\r\nThe end.", "whitespace", f"{SENTENCE}.\n\nThe end."),
    ],
)
def test_repairs_are_recorded(statement, rule, text):
    record, log = process(statement)
    assert record.statement == text
    assert (rule, "change") in log


@pytest.mark.parametrize("line", ["Accepted", "like", "Source: vertex 1", "Submissions: none"])
def test_lines_that_only_look_like_noise_stay(line):
    text = f"{SENTENCE}.\n{line}\nOr print so.\n"
    assert process(text)[0].statement == text


def test_links_in_code_stay():
    text = f"{SENTENCE}.\n```\nhttps://a.b/c\n```\n"
    assert process(text)[0].statement == text


def test_images_are_removed_and_flagged():
    record, log = process(f"![x](a.png) {SENTENCE}.")
    assert "a.png" not in record.statement
    assert record.flags == ("image_removed",)
    assert ("image_removed", "flag") in log


@pytest.mark.parametrize(
    "statement",
    ["", "***", "[deleted]", "Problem statement is not available.", f"{SENTENCE} and the",
     f"{SENTENCE}.\n```\n1 2", f"{SENTENCE} and then..."],
)  # fmt: skip
def test_incomplete_statements_are_dropped(statement):
    record, log = process(statement)
    assert record is None
    assert ("completeness", "drop") in log


def test_the_form_is_stated_where_the_statement_does_not():
    story = "Some people stand in a row, and we wonder how many of them are tall enough."
    assert "standard input" in process(story)[0].statement
    assert process(f"{SENTENCE}.")[0].statement == f"{SENTENCE}."
    code = "class Solution:\n    def tall(self, a: list[int]) -> int:\n        return 1\n"
    record, log = process(story, form="call", fn_name="tall", references=(code,))
    assert "class Solution:\n    def tall(self, a: list[int]) -> int:" in record.statement
    assert record.starter_code == code.replace("return 1", "pass")
    assert {("starter_code", "change"), ("form", "change")} <= log.keys()
    kept = process(story, ProcessConfig(state_form=False))[0]
    assert kept.statement == story


# Translation -------------------------------------------------------------------------------------

RUSSIAN = "Дано целое число n не больше 100. Найдите сумму всех его делителей и выведите её."
ENGLISH = "Given a whole number n of at most 100, find the sum of all its divisors and print it."


@pytest.fixture
def server():
    """A server that speaks the chat API: answers are popped from a list, requests are kept."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.server.requests.append((self.path, body, self.headers.get("Authorization")))
            status, text = self.server.answers.pop(0)
            choice = {"message": {"content": text}, "finish_reason": "stop"}
            data = json.dumps({"choices": [choice]}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.requests, http.answers = [], []
    http.url = f"http://127.0.0.1:{http.server_port}/v1"
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield http
    http.shutdown()
    thread.join()
    http.server_close()


def translating(server, folder):
    config = ProcessConfig(
        translator=Endpoint(base_url=server.url, model="m", api_key_env="TEST_KEY", attempts=1)
    )
    return Process(config, folder)


def foreign():
    return [Problem("p", RUSSIAN, "stdin")]


def test_foreign_statements_are_translated_once(server, tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_KEY", "secret")
    server.answers = [(200, f"<think>hm</think>\n{ENGLISH}")]
    stage = translating(server, tmp_path)
    (record,), _ = stage.run(foreign())
    assert (record.statement, record.language) == (ENGLISH, "en")
    assert record.metadata["original_statement"] == RUSSIAN
    assert stage.run(foreign())[0] == [record]
    ((path, body, key),) = server.requests
    assert (path, body["model"], body["temperature"], key) == (
        "/v1/chat/completions", "m", 0, "Bearer secret",
    )  # fmt: skip
    assert RUSSIAN in body["messages"][0]["content"]


def test_a_translation_that_loses_a_number_is_refused(server, tmp_path):
    server.answers = [(200, ENGLISH.replace("100", "a hundred"))]
    kept, log = translating(server, tmp_path).run(foreign())
    assert not kept
    assert "lost the number 100" in log[-1].detail


def test_a_server_that_fails_ends_the_build_and_loses_nothing(server, tmp_path):
    server.answers = [(200, ENGLISH), (503, "")]
    stage = translating(server, tmp_path)
    other = Problem("q", RUSSIAN + " Ответ один.", "stdin")
    with pytest.raises(StageFailed, match=r"HTTP status 503.*answers so far are kept"):
        stage.run([*foreign(), other])
    server.answers = [(200, ENGLISH + " One answer.")]
    assert len(stage.run([*foreign(), other])[0]) == 2
    assert len(server.requests) == 3


def test_busy_servers_are_asked_again(server, tmp_path):
    server.answers = [(429, ""), (500, ""), (200, "yes")]
    chat = Chat(Endpoint(base_url=server.url, model="m", attempts=3), tmp_path, pause_s=0)
    assert chat.ask("?") == "yes"
    server.answers = [(401, "")]
    with pytest.raises(StageFailed, match="check base_url"):
        chat.ask("other")
    server.answers = [(400, "")]
    with pytest.raises(UserError, match="refused it: HTTP status 400"):
        chat.ask("too long")
    assert len(server.requests) == 5


def test_without_a_translator_foreign_statements_are_flagged():
    record, log = process(RUSSIAN)
    assert (record.language, record.flags) == ("ru", ("foreign",))
    assert ("foreign", "flag") in log
