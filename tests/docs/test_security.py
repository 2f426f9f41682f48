"""The trust model names everything that is read or run, and readers find it."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text()


@pytest.mark.parametrize(
    "words",
    [
        "`results.parquet`",
        "saved states",
        "`run FILE.toml`",
        "`NUMBA_CACHE_DIR`",
        "Dask scheduler",
        "`check MODULE:FACTORY`",
        "Gymnasium",
        "Contact the maintainers privately",
    ],
)
def test_the_trust_model_names(words):
    assert words in TEXT


def test_readers_and_packages_have_it():
    assert "(SECURITY.md)" in (ROOT / "README.md").read_text()
    assert "../SECURITY.md" in (ROOT / "docs" / "security.md").read_text()
    assert "\nsecurity\n" in (ROOT / "docs" / "index.md").read_text()
    assert '"SECURITY.md"' in (ROOT / "pyproject.toml").read_text()
    assert "security.md" in (ROOT / "docs" / "howto" / "cluster.md").read_text()
