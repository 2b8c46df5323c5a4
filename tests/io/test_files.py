"""Files in: one column of numbers, whatever else the file holds, and errors that quote no row."""

import math
import re
from pathlib import Path

import polars as pl
import pytest

from confidp.central.data import as_rows, fill_missing
from confidp.errors import InvalidArgument, InvalidType, MissingValues
from confidp.io.files import read_column

CANARY = "canary-90210"


def read(folder, content, column="a", name="f.csv"):
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_column(file, column)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a,b\n1,2\n3,4\n", [1, 3]),
        ("a,b\n1,2\n3,4", [1, 3]),
        ("b,a\r\n2,1\r\n4,3\r\n", [1, 3]),
        (b"\xef\xbb\xbfa,b\n1,2\n3,4\n", [1, 3]),
        (b'\xef\xbb\xbf"a","b"\n"1",2\n"3",4\n', [1, 3]),
        (b"b,a\ncaf\xe9,1\n\xff\xfe,3\n", [1, 3]),
        (b"caf\xe9,a\n2,1\n4,3\n", [1, 3]),
        ('b,a\n"two\nlines, and a comma",1\n"say ""x""",3\n', [1, 3]),
        ('"b\nc",a\n2,1\n4,3\n', [1, 3]),
        ("b,a\n 2 , 1\n4,\t3 \n", [1, 3]),
        ("b,b,a\n2,2,1\n4,4,3\n", [1, 3]),
        ("a,\n1,\n3,\n", [1, 3]),
        ("a,b\n1e3,1\n-.5,1\n+2,1\ninf,1\n-inf,1\n", [1000, -0.5, 2, math.inf, -math.inf]),
    ],
)
def test_a_column_of_a_text_file_is_read_by_name(tmp_path, content, expected):
    series = read(tmp_path, content)
    assert series.dtype == pl.Float64
    assert series.name == "a"
    assert series.to_list() == expected


@pytest.mark.parametrize(
    "field", ["", '""', " ", "NA", "NaN", "n/a", "x", '"1,234"', "1 234", "1_000", "0x10", "True"]
)
def test_what_is_not_a_number_counts_as_missing_and_no_row_is_dropped(tmp_path, field):
    rows = as_rows(read(tmp_path, f"a,b\n1,1\n{field},1\n3,1\n"))
    assert fill_missing(rows, 7.0).ravel().tolist() == [1, 7, 3]
    with pytest.raises(MissingValues) as caught:
        fill_missing(rows, None)
    assert "234" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        "a\n1\n\n3\n",
        "b,a\n1,1\n\n3,3\n",
        "b,a\n1,1\n2\n3,3\n",
        "a,b\n1,1\n2\n3,3\n",  # short, though after the column
        "a,b\n1,1\n1,234,5\n3,3\n",  # an unquoted 1,234 isn't 1
        "a\n1\n1,234\n3\n",
        "b,a\n1,1\n1,234,5\n3,3\n",
        "a,b\n1,1\n1\x00,2\n3,3\n",
    ],
)
def test_a_row_with_more_or_fewer_fields_than_the_header_has_a_missing_value(tmp_path, content):
    assert read(tmp_path, content).to_list() == [1, None, 3]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_empty_last_line_is_a_row_and_the_end_of_a_line_is_not(tmp_path, end):
    assert read(tmp_path, end.join(["a", "1", "3", ""])).to_list() == [1, 3]
    assert read(tmp_path, end.join(["a", "1", "3", "", ""])).to_list() == [1, 3, None]


def test_tabs_separate_in_a_tsv_file_and_case_does_not_matter(tmp_path):
    content = "b\ta\nx,y\t1\nz\t3\n"
    assert read(tmp_path, content, name="f.tsv").to_list() == [1, 3]
    assert read(tmp_path, content, name="F.TSV").to_list() == [1, 3]


@pytest.mark.parametrize("content", ["a,b", "a,b\n", "a,b\r\n"])
def test_a_header_alone_is_no_rows(tmp_path, content):
    with pytest.raises(InvalidArgument, match="at least 2 rows, not 0"):
        as_rows(read(tmp_path, content))


def test_types_come_from_no_row_so_that_text_in_one_changes_no_other(tmp_path):
    content = "a\n" + "1\n" * 5000 + f"{CANARY}\n" + "0.5\n"
    values = read(tmp_path, content).to_list()
    assert values[:5000] == [1.0] * 5000
    assert values[5000:] == [None, 0.5]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, None, 3], [1, None, 3]),
        ([1.5, None], [1.5, None]),
        ([True, False], [True, False]),
    ],
)
def test_a_column_of_a_parquet_file_keeps_its_type_and_nulls(tmp_path, values, expected):
    file = tmp_path / "f.parquet"
    pl.DataFrame({"b": [CANARY] * len(values), "a": values}).write_parquet(file)
    assert read_column(file, "a").to_list() == expected
    assert read_column(str(file), "a").name == "a"


def test_a_text_column_of_a_parquet_file_is_refused_by_its_type(tmp_path):
    file = tmp_path / "f.parquet"
    pl.DataFrame({"a": [CANARY, "1"]}).write_parquet(file)
    with pytest.raises(InvalidType, match=r"^column 'a' must be numbers, not text$"):
        as_rows(read_column(file, "a"))


FIRST_LINE = r"column 'a' is not in the first line of f\.csv, which must name the columns$"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("wage,age\n1,2\n", FIRST_LINE),
        ("A,a \n1,2\n", FIRST_LINE),
        ("a,b,a\n1,2,3\n", r"column 'a' is more than once in the first line of f\.csv"),
        ("", FIRST_LINE),
        ("\na\n1\n", FIRST_LINE),
    ],
)
def test_a_column_that_is_not_there_once_is_refused(tmp_path, content, message):
    with pytest.raises(InvalidArgument, match=message):
        read(tmp_path, content)


def test_a_column_that_a_parquet_file_lacks_is_refused_with_the_names_of_its_schema(tmp_path):
    pl.DataFrame({"wage": [1], "two\nlines": [2]}).write_parquet(tmp_path / "f.parquet")
    with pytest.raises(InvalidArgument, match=r"which has wage, 'two\\nlines'$"):
        read_column(tmp_path / "f.parquet", "a")


FIRST_ROWS = [
    f"41,{CANARY}\n42,x\n",  # no header: the first line is a person
    f"{CANARY},north\nBob,south\n",  # and may look like one
    f"{CANARY}\n",
    f'b,"c\n1,{CANARY}\n2,x\n',  # a quote that never closes
    f'b,"c\n{CANARY},"2\n3,x\n',
    f'b,a\n1,"{CANARY}\n2,x\n3,x\n',
    f'b,a\n1,"{CANARY}"2\n3,x\n',
    f"b,c\n1,{CANARY}\n".encode("utf-16"),
    b"\x89PNG\r\n\x1a\n" + CANARY.encode(),
    b"\0" * 10 + CANARY.encode(),
    b"b," + b"c" * 200_000 + CANARY.encode() + b"\n1,2\n",
    b"a\n" + b"1" * 200_000 + CANARY.encode() + b"\n2\n",
]


@pytest.mark.parametrize("content", FIRST_ROWS, ids=lambda content: str(content[:20]))
def test_an_error_is_one_line_that_quotes_nothing_of_the_file(tmp_path, content):
    with pytest.raises(InvalidArgument, match=r"^(column|file) '") as caught:
        read(tmp_path, content)
    assert re.search(r"(which must name the columns|can't be read as CSV)$", str(caught.value))
    assert CANARY not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("path", "column", "error"),
    [(3, "a", InvalidType), (None, "a", InvalidType), (b"f.csv", "a", InvalidType),
     ("f.csv", None, InvalidType), ("f.csv", 1, InvalidType), ("a\0.csv", "a", InvalidArgument),
     ("\ud800.csv", "a", InvalidArgument)],
)  # fmt: skip
def test_a_path_and_a_column_are_text(path, column, error):
    with pytest.raises(error, match=r"^(file|column) "):
        read_column(path, column)


def test_a_file_that_may_not_be_opened_says_so(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, CANARY)

    (tmp_path / "f.csv").write_text("a\n1\n")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InvalidArgument, match=r"can't be opened: permission denied$"):
        read_column(tmp_path / "f.csv", "a")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.csv", "doesn't exist"),
        ("folder.csv", "isn't a file"),
        ("x" * 300 + ".csv", "can't be read as CSV"),
        ("f.xlsx", "must end in .csv, .tsv or .parquet, not 'f.xlsx'"),
        ("csv", "must end in"),
        ("f.csv.gz", "must end in"),
    ],
)
def test_a_file_that_is_not_a_table_is_refused(tmp_path, name, message):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidArgument, match=r"^file ") as caught:
        read_column(tmp_path / name, "a")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_broken_parquet_file_is_refused_without_its_bytes(tmp_path):
    with pytest.raises(InvalidArgument, match=r"can't be read as PARQUET$"):
        read(tmp_path, b"PAR1" + CANARY.encode() + b"PAR1", name="f.parquet")
