"""Bad rows, files and intentions: each costs itself, says so in one line, and runs nothing."""

import base64
import json
import os
import pickle
import tracemalloc
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcbench.data import Problem
from mcbench.data.audit import Ledger
from mcbench.data.collect import OpenSource, Source, Unusable, adapter, decode, read_source, rows
from mcbench.data.collect.decode import inflate, names, parse_json, pickled_text, seconds
from mcbench.errors import UserError

from . import published
from .published import jsonl, pack, packed, parquet


def read(adapter, path, **options):
    """Ids of the records, and the rejections."""
    items = OpenSource(Source(adapter=adapter, path=str(path), **options)).items()
    values = [item.value for item in items]
    records = [v for v in values if isinstance(v, Problem)]
    return records, [v for v in values if not isinstance(v, Problem)]


@pytest.mark.parametrize(
    ("bad", "rule", "reason"),
    [
        ("{not json", "malformed", "not JSON"),
        ("[1, 2]", "malformed", "a list, not an object"),
        ('{"question": ' + "[" * 100_000, "malformed", "not JSON"),
        (published.taco(question=None), "malformed", "question is missing"),
        (published.taco(question=["a"]), "malformed", "question should be text, found a list"),
        (published.taco(input_output=None), "malformed", "should be JSON text, found nothing"),
        (published.taco(input_output="{"), "malformed", "input_output is not JSON"),
        (published.taco(input_output='{"inputs": ["1"], "outputs": []}'), "malformed", "1 inputs"),
        (published.taco(input_output='{"inputs": [], "outputs": []}'), "no_tests", "no usable"),
        (published.taco(url=5), "malformed", "url must be text"),
        (published.taco(starter_code="\ud800"), "malformed", "not valid Unicode"),
    ],
)
def test_a_bad_row_costs_that_row(tmp_path, bad, rule, reason):
    path = jsonl(tmp_path / "t.jsonl", published.taco(), bad, published.taco())
    records, [rejected] = read("taco", path)
    assert [record.id for record in records] == ["taco/train/0", "taco/train/2"]
    assert (rejected.rule, rejected.id) == (rule, "taco/train: line 2 of t.jsonl")
    assert reason in rejected.detail
    assert "\n" not in rejected.detail


def test_an_unreadable_literal_or_solution_keeps_the_row(tmp_path):
    row = published.taco(tags="__import__('os').getcwd()", solutions="{", time_limit="soon")
    [record], [] = read("taco", jsonl(tmp_path / "t.jsonl", row))
    assert (record.tags, record.references, record.time_limit_s) == ((), (), 4.0)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_missing_column_is_named_with_what_to_do(tmp_path, kind):
    row = published.taco()
    row["tests"] = row.pop("input_output")
    path = tmp_path / f"t.{kind}"
    (jsonl if kind == "jsonl" else parquet)(path, row)
    with pytest.raises(UserError) as error:
        list(read_source(Source(adapter="taco", path=str(path))))
    for part in ("no column input_output", "found: ", "tests", "adapter: mapping"):
        assert part in str(error.value)


def test_a_column_of_another_kind_is_named(tmp_path):
    row = published.verifiable(verification_info="{'language': 'python'}")
    [], [rejected] = read("verifiable-coding-problems", parquet(tmp_path / "v.parquet", row))
    assert "verification_info is not JSON" in rejected.detail


def test_a_first_row_without_the_column_does_not_condemn_the_file(tmp_path):
    records, rejected = read("taco", jsonl(tmp_path / "t.jsonl", {"a": 1}, published.taco()))
    assert (len(records), len(rejected)) == (1, 1)


def test_a_line_over_the_limit_is_skipped_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "ROW_MB", 0.1)
    long = published.taco(question="x" * 300_000)
    path = jsonl(tmp_path / "t.jsonl", published.taco(), long, published.taco())
    records, [rejected] = read("taco", path)
    assert (len(records), rejected.rule) == (2, "oversized")
    assert "line 2" in rejected.id


def test_a_test_over_the_limit_leaves_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(adapter, "TEST_MB", 0.1)
    tests = {"inputs": ["1 2\n", "9" * 300_000], "outputs": ["3\n", "9"]}
    path = jsonl(tmp_path / "t.jsonl", published.taco(input_output=json.dumps(tests)))
    [record], [] = read("taco", path)
    assert len(record.tests) == 1
    assert record.flags == ("tests_left_out",)
    assert record.metadata["tests_left_out"] == ["1 in all", "test 1: 0.3 MB, more than 0.1 MB"]


def test_a_200_mb_test_file_is_refused_unread(tmp_path):
    folder = published.package(tmp_path / "sum", "name: Sum")
    with (folder / "data/secret/02.in").open("wb") as file:
        file.truncate(200 * 1024 * 1024)  # sparse: it takes no space
    (folder / "data/secret/02.ans").write_text("0\n")
    tracemalloc.start()
    [record], [] = read("problem-package", tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(record.tests) == 2
    assert "02.in has 200.0 MB, more than 32 MB" in record.metadata["tests_left_out"][1]
    assert peak < 20 * 1024 * 1024


def bomb(megabytes: int) -> bytes:
    engine = zlib.compressobj(9)
    block = bytes(1024 * 1024)
    return b"".join([*(engine.compress(block) for _ in range(megabytes)), engine.flush()])


def test_a_zip_bomb_is_refused_before_it_unpacks(tmp_path, monkeypatch):
    monkeypatch.setattr(decode, "UNPACKED_MB", 2)
    packed_bomb = bomb(200)
    assert len(packed_bomb) < 300_000
    row = published.lcb(private_test_cases=base64.b64encode(packed_bomb).decode())
    path = jsonl(tmp_path / "test6.jsonl", row, published.lcb(question_id="abc400_b"))
    tracemalloc.start()
    [record], [rejected] = read("livecodebench", path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert record.id == "livecodebench/abc400_b"
    assert rejected.rule == "oversized"
    assert "private_test_cases unpacks from 0.2 MB to more than 2 MB" in rejected.detail
    assert peak < 20 * 1024 * 1024


def test_rows_of_a_parquet_file_that_unpack_to_much_are_refused_before(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "UNPACKED_MB", 2)
    rest = [published.humaneval(task_id=f"HumanEval/{n}") for n in range(3)]
    table = pa.Table.from_pylist([rest[0] | {"prompt": "0" * 50_000_000}, *rest[1:]])
    path = tmp_path / "train.parquet"
    pq.write_table(table, path, row_group_size=1, compression="zstd")
    assert path.stat().st_size < 100_000
    usual = pa.default_memory_pool()
    pa.set_memory_pool(watched := pa.proxy_memory_pool(usual))
    try:
        found = list(rows.read_rows(path, None))
    finally:
        pa.set_memory_pool(usual)
    assert [isinstance(one.data, decode.Unusable) for one in found] == [True, False, False]
    assert "row 1 of train.parquet" in found[0].where
    assert "unpacks to 47.7 MB a row, more than 2 MB" in str(found[0].data)
    assert 0 < watched.max_memory() < 20 * 1024 * 1024
    assert all(isinstance(one.data, dict) for one in rows.read_rows(path, ["task_id"]))


def test_what_unpacks_to_many_values_is_refused_unparsed():
    packed = base64.b64encode(zlib.compress(pickle.dumps("[" + "[], " * 2_500_000 + "0]"), 9))
    assert len(packed) < 20_000
    tracemalloc.start()
    with pytest.raises(decode.Unusable, match="tests unpacks to more than 1,000,000 values"):
        decode.unpack_pickled_json(packed.decode(), "tests")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * 1024 * 1024
    text = json.dumps([{"input": '1, [2], {}\\"' * 500_000, "output": "1"}])
    packed = base64.b64encode(zlib.compress(pickle.dumps(text)))
    assert len(decode.unpack_pickled_json(packed.decode(), "tests")) == 1  # all in one text


class Touch:
    """A pickle of this creates a file when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def hostile_pickles(target):
    yield pickle.dumps(Touch(target))
    yield pickle.dumps(["[]", Touch(target)], protocol=0)
    yield f"cos\nmkdir\n(V{target}\ntR.".encode()
    yield f"(V{target}\nios\nmkdir\n.".encode()
    yield b"\x80\x04\x8c\x02os\x8c\x06system\x93."
    yield b"\x82\x01."  # from the registry of extensions
    yield b"P1\n."  # a persistent object
    yield pickle.dumps({"a": "b"})
    yield pickle.dumps(b"[]")
    yield b"\x80\x04\x8c\x02[]\x8c\x02[]."  # two texts


def test_hostile_pickles_are_never_executed(tmp_path):
    target = tmp_path / "created"
    pickle.loads(pickle.dumps(Touch(target)))
    assert target.is_dir()  # the attack works on an unpickler
    target.rmdir()
    pickles = list(hostile_pickles(target))
    rows = [
        published.lcb(question_id=str(n), private_test_cases=pack(p)) for n, p in enumerate(pickles)
    ]
    path = jsonl(tmp_path / "test.jsonl", *rows, published.lcb())
    records, rejected = read("livecodebench", path, subset="v1")
    assert [record.id for record in records] == ["livecodebench/abc400_a"]
    assert {r.rule for r in rejected} == {"hostile"}
    assert len(rejected) == len(pickles)
    assert not target.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f[]",  # a text of 8 EiB
        b"\x80\x04\x8c\x05[]",  # ends within the text
        b"\x80\x04\x8c\x02[]",  # no end
        b"V\\ud8\n.",
        b"\xff\xff",
    ],
)
def test_a_damaged_pickle_is_malformed(data):
    with pytest.raises(Unusable, match="is no pickle"):
        pickled_text(data, "tests")


def test_a_memo_index_allocates_nothing():
    data = b"\x80\x04\x8c\x02[]r\xff\xff\xff\x7f."  # LONG_BINPUT 2**31 - 1
    tracemalloc.start()
    assert pickled_text(data, "tests") == "[]"
    assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("?", "neither JSON nor base64"),
        ("AAAA", "not zlib data"),
        (base64.b64encode(zlib.compress(b"x" * 1000)[:-6]).decode(), "ends early"),
        (packed({"a": 1}), "should hold a list of objects"),
        (packed([["in", "out"]]), "should hold a list of objects"),
        (packed([{"input": "1", "output": "2", "testtype": "other"}]), "found other, stdin"),
        (packed([{"input": 1, "output": "2", "testtype": "functional"}]), "functional, stdin"),
    ],
)
def test_unreadable_private_tests_cost_the_row(tmp_path, text, reason):
    path = jsonl(tmp_path / "t.jsonl", published.lcb(private_test_cases=text))
    [], [rejected] = read("livecodebench", path)
    assert reason in rejected.detail


def test_tests_that_json_or_utf8_cannot_hold_are_left_out(tmp_path):
    deep: list = []
    for _ in range(400):
        deep = [deep]
    tests = {
        "fn_name": "f",
        "inputs": [[{"1": 2}], [1], 5, ["\ud800"], deep, ["digits"]],
        "outputs": [[1], [1], [1], [1], [1], [1]],
    }
    text = json.dumps(tests).replace('"digits"', "9" * 5000)
    path = jsonl(tmp_path / "t.jsonl", published.taco(input_output=text))
    [record], [] = read("taco", path)
    assert [test["args"] for test in record.tests] == [[1]]


def test_a_link_out_of_a_package_and_a_pipe_are_not_read(tmp_path):
    (tmp_path / "secret.txt").write_text("password")
    folder = published.package(tmp_path / "packages" / "sum", "name: Sum")
    (folder / "data/secret/02.in").symlink_to(tmp_path / "secret.txt")
    (folder / "data/secret/02.ans").write_text("0\n")
    os.mkfifo(folder / "data/secret/03.in")
    [record], [] = read("problem-package", tmp_path / "packages")
    assert len(record.tests) == 2
    reasons = " ".join(record.metadata["tests_left_out"])
    assert "link to a file outside" in reasons
    assert "no plain file" in reasons
    assert "password" not in json.dumps(vars(record))


def test_yaml_that_grows_when_written_out_stays_small(tmp_path):
    laughs = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))
    settings = f"a0: &a0 [ha]\n{laughs}\nlicense: *a11\nname: *a11\nsource: *a11\nkeywords: *a11\n"
    published.package(tmp_path / "sum", settings)
    [record], [] = read("problem-package", tmp_path)
    assert len(json.dumps(vars(record))) < 5000


@pytest.mark.parametrize(
    "code", ["(" * 50_000, "-" * 50_000 + "1", "x = " * 50_000, "a" + ".b" * 50_000]
)
def test_programs_that_exhaust_a_parser_cost_their_row(tmp_path, code):
    rows = [published.kodcode(test=code), published.mbpp(code=code)]
    assert read("kodcode", jsonl(tmp_path / "k.jsonl", rows[0]))[0] == []
    assert read("mbpp", jsonl(tmp_path / "m.jsonl", rows[1]))[0] == []


def test_values_that_json_cannot_hold_do_not_reach_a_record(tmp_path):
    row = published.taco(name=b"raw", skill_types=None, picture_num=b"0", url=b"u", date=b"2019")
    rows = [{**row, "url": None}, published.taco(time_limit=[2], memory_limit=b"1")]
    path = tmp_path / "t.parquet"
    parquet(path, rows[0])
    [record], [] = read("taco", path)
    assert "name" not in record.metadata
    assert json.dumps(vars(record))
    [record], [] = read("taco", parquet(path, rows[1]))
    assert (record.time_limit_s, record.memory_limit_mb) == (4.0, None)


# Sources that end early --------------------------------------------------------------------------


def test_names_and_reasons_are_safe_to_print(tmp_path):
    row = published.taco(id="\x1b[2J", question="Print \x1b[31m the sum.")
    [record], [] = read("taco", parquet(tmp_path / "t.parquet", row))
    ledger = Ledger("filter")
    ledger.drop(record, "rule", "says \x1b[2J\udc80")
    ledger.reject("source\x1b[2J", "rule", "no")
    for entry in ledger.entries:
        assert all(text.isprintable() for text in (entry.record, entry.detail, entry.excerpt))


def test_a_compressed_file_cut_short_keeps_what_came_before(tmp_path):
    path = tmp_path / "HumanEval.jsonl.gz"
    rows = [
        published.humaneval(task_id=f"HumanEval/{n}", test=os.urandom(900).hex()) for n in range(9)
    ]
    jsonl(path, *rows)
    path.write_bytes(path.read_bytes()[:-2000])
    records, [rejected] = read("humaneval", path)
    assert 0 < len(records) < 9
    assert (rejected.rule, rejected.id) == ("source_disappeared", "humaneval/test")
    assert "HumanEval.jsonl.gz breaks off" in rejected.detail


def test_a_compressed_line_of_many_values_is_refused(tmp_path):
    bomb, sound = (published.humaneval(task_id=f"HumanEval/{n}") for n in range(2))
    path = jsonl(tmp_path / "HumanEval.jsonl.gz", bomb | {"more": [[]] * 1_000_001}, sound)
    _, [rejected] = read("humaneval", path)
    assert (rejected.rule, rejected.detail) == (
        "oversized",
        "the line unpacks to more than 1,000,000 values",
    )


def test_a_parquet_file_cut_short(tmp_path):
    jsonl(tmp_path / "ALL" / "train-0.jsonl", published.taco())
    path = parquet(tmp_path / "ALL" / "train-1.parquet", published.taco())
    path.write_bytes(path.read_bytes()[:-100])
    records, [rejected] = read("taco", tmp_path, files=("train-0.jsonl", "train-1.parquet"))
    assert len(records) == 1
    assert "train-1.parquet is damaged (Parquet magic bytes not found" in rejected.detail


def test_a_parquet_file_damaged_in_the_middle(tmp_path):
    rows = [published.taco(question=os.urandom(4000).hex()) for _ in range(8)]
    path = tmp_path / "t.parquet"
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, path, row_group_size=2, compression="snappy", use_dictionary=False)
    group = pq.ParquetFile(path).metadata.row_group(2)
    start = group.column(0).data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + 200] = b"\xff" * 200
    path.write_bytes(data)
    records, [rejected] = read("taco", path)
    assert len(records) == 4
    assert rejected.rule == "source_disappeared"


def test_a_file_that_is_gone_when_its_turn_comes(tmp_path):
    for name in ("test.jsonl", "test2.jsonl"):
        jsonl(tmp_path / name, published.lcb(question_id=name))
    items = OpenSource(
        Source(adapter="livecodebench", path=str(tmp_path), subset="release_v2")
    ).items()
    first = next(items).value
    (tmp_path / "test2.jsonl").unlink()
    [last] = [item.value for item in items]
    assert first.id == "livecodebench/test.jsonl"
    assert last.rule == "source_disappeared"


# Small parts -------------------------------------------------------------------------------------


def test_limits_and_literals():
    assert (seconds("500 ms"), seconds("2.0 seconds"), seconds(3), seconds("?")) == (
        0.5,
        2,
        3,
        None,
    )
    assert inflate(zlib.compress(b"ab"), "f", 0.000002) == b"ab"
    with pytest.raises(Unusable, match="more than"):
        inflate(zlib.compress(b"abc"), "f", 0.000002)
    assert names("['a', 'b', 3]") == ("a", "b")
    assert names("open('x')") == names("[" * 30_000) == names(None) == ()
    assert parse_json("9" * 5000, "tests") % 10 == 9  # more digits than Python converts by itself
