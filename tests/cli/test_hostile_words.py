"""Words from files: shown as they are, and never obeyed by a terminal, a picture or a page."""

import json
import re
import unicodedata

import pytest
from tests.cli.conftest import SMALL
from tests.report.test_page import results_of

from weakfeedback.figures import plot_curves
from weakfeedback.plaintext import one_line, visible

LABELS = ["$x_$", "costs $5 and $6", "[/]", "[red]x[/red]", "[link=http://x]y[/link]", ":bomb:", "\\$", "<b>"]
STEERING = [
    "\x1b]0;pwned\x07",
    "\x9b31m",
    "\u202egnp.exe",
    "\u2066",
    "\u2028",
    "\ufeff",
    "\x00",
    "\x7f",
    "\ud800",
]


def steers(text):
    """The characters of a text that are not seen, lines apart."""
    hidden = {one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return hidden - {"\n"}


def test_labels_are_printed_and_drawn_as_they_are(folder, call):
    policies = ", ".join(f"{{ policy = 'USS-TS', label = {json.dumps(label)} }}" for label in LABELS)
    text = re.sub(r"policies = .*", lambda _: f"policies = [{policies}]", SMALL)
    (folder / "labels.toml").write_text(f'title = "[bold]costs $1 and [/] $2"\n{text}')
    result = call("run", "labels.toml", "--out", "out")
    assert result.exit_code == 0, result.stderr
    assert "[bold]costs $1 and [/] $2" in result.stdout
    svg = (folder / "out" / "report" / "labels.svg").read_text()
    for label in LABELS:
        assert f"{label} " in result.stdout
        assert f">{label.replace('<', '&lt;').replace('>', '&gt;')}</text>" in svg


@pytest.mark.parametrize("words", STEERING[:-1])
@pytest.mark.parametrize("key", ["label", "title"])
def test_characters_that_steer_are_refused_in_labels_and_titles(folder, call, words, key):
    label, title = (words if key == name else "x" for name in ("label", "title"))
    (folder / "bad.toml").write_text(
        f'title = {json.dumps(title)}\nsetting = "cascade"\ninstance = "bsc-1"\n'
        f'policies = [{{ policy = "USS-TS", label = {json.dumps(label)} }}]\n'
    )
    result = call("run", "bad.toml")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "printable characters on one line" in result.stderr
    assert not steers(result.stderr)


@pytest.mark.parametrize("words", STEERING[:-1])
def test_keys_options_and_values_of_a_file_do_not_reach_the_terminal_raw(folder, call, words):
    quoted = json.dumps(words + "x" * 5000)
    head = 'setting = "cascade"\ninstance = "bsc-1"\n'
    files = [
        f'{quoted} = 1\n{head}policies = ["USS-TS"]',
        f'{head}policies = [{{ policy = "USS-UCB", {quoted} = 1.0 }}]',
        f"{head}policies = [{quoted}]",
        f'setting = {quoted}\ninstance = "bsc-1"\npolicies = ["USS-TS"]',
        f'setting = "cascade"\ninstance = {quoted}\npolicies = ["USS-TS"]',
        f'setting = "cascade"\npolicies = ["USS-TS"]\n[problem]\n{quoted} = 1',
    ]
    for text in files:
        (folder / "bad.toml").write_text(text)
        result = call("run", "bad.toml")
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), text
        assert not steers(result.stderr)
        assert len(result.stderr) < 3000


@pytest.mark.parametrize("json_wanted", [[], ["--json"]])
def test_a_folder_of_somebody_else_steers_neither_terminal_nor_page(folder, call, json_wanted):
    labels = [f"{words}{k}" for k, words in enumerate(STEERING[:-1])]
    results = results_of(labels)
    results.about["title"] = "".join(STEERING[:-1])
    results.about["file"] = "a = 1\n\t# \u202e"
    results.about["versions"] = {"\x1b[31m": "\u202e"}
    results.save(folder / "results.parquet")
    result = call("report", ".", *json_wanted)
    assert result.exit_code == 0, result.stderr
    assert not steers(result.stdout)
    page = (folder / "report" / "index.html").read_text()
    assert not steers(page) - {"\t"}
    svg = (folder / "report" / "results.svg").read_text()
    assert not steers(svg)
    if json_wanted:
        assert [row["policy"] for row in json.loads(result.stdout)["final"]] == labels


def test_a_legend_reads_no_formulas():
    ax = plot_curves(results_of(["$x_$", "a $ b"]))
    legend = ax.legend()
    ax.figure.canvas.draw()
    assert [text.get_text() for text in legend.get_texts()] == [r"\$x_\$", r"a \$ b"]


def test_the_words_themselves():
    for words in STEERING:
        assert visible(words).isprintable()
    assert visible("Ångström ξ ≥ 1 – 日本語") == "Ångström ξ ≥ 1 – 日本語"
    assert visible("a\u00a0b") == "a\u00a0b"
    assert len(one_line("x\n" * 10**6)) == 2000
