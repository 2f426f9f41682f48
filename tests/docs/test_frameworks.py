"""The snippets of "Point your framework here" run with the real packages, where these are installed."""

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.docs.test_snippets import ROOT, blocks_of, squeezed
from tests.rig import processes
from tests.rig.processes import PATIENCE
from tests.rig.proxy_demo import demo_proxy

PAGE = ROOT / "docs" / "howto" / "frameworks.md"
BLOCKS = blocks_of(PAGE)
TALKING = [(code, BLOCKS[k + 1][1]) for k, (language, code) in enumerate(BLOCKS) if language in ("py", "js")]
PACKAGES = [re.search(r"(?:from|import .* from) \"?([\w@/-]+)", code)[1] for code, _ in TALKING]
# a folder in which `npm install ai @ai-sdk/openai-compatible` ran
NODE = os.environ.get("WEAKFEEDBACK_NODE_MODULES")


# the package that this environment was made for; the module that a snippet imports from it
MADE_FOR = os.environ.get("WEAKFEEDBACK_INTEGRATION")
MODULES = {
    "litellm": "litellm",
    "langchain-openai": "langchain_openai",
    "llama-index-llms-openai-like": "llama_index",
    "pydantic-ai-slim": "pydantic_ai",
}


@pytest.mark.skipif(MADE_FOR is None, reason="no environment of `make test-integrations`")
def test_what_is_to_be_tested_is_there():
    assert importlib.util.find_spec(MODULES[MADE_FOR]) is not None


@pytest.fixture(scope="module")
def address():
    with demo_proxy() as found:
        yield found


def test_the_page_has_all_of_them():
    assert PACKAGES == ["openai", "langchain_openai", "llama_index", "pydantic_ai", "ai"]


@pytest.mark.filterwarnings("ignore")  # the packages' own
@pytest.mark.parametrize(("code", "printed"), TALKING[:-1], ids=PACKAGES[:-1])
def test_a_framework_gets_its_answer(code, printed, address):
    package = re.search(r"from (\w+)", code)[1]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    assert squeezed(processes.printed("-c", code.replace("127.0.0.1:8470", address))) == squeezed(printed)


@pytest.mark.skipif(NODE is None, reason="WEAKFEEDBACK_NODE_MODULES names no folder with the packages of npm")
def test_the_sdk_of_vercel_gets_its_answer(address):
    code, printed = TALKING[-1]
    script = Path(NODE) / "snippet.mjs"
    script.write_text(code.replace("127.0.0.1:8470", address))
    done = subprocess.run(["node", script], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert squeezed(done.stdout) == squeezed(printed)


def test_the_negative_control_fails(address):
    """A snippet that asks for a model that there is not prints no answer."""
    code = TALKING[0][0].replace("127.0.0.1:8470", address).replace('"assistant"', '"nobody"')
    with pytest.raises(AssertionError, match="does not exist"):
        processes.printed("-c", code)
