"""The command line. Each command imports what it needs when it runs, so that the others start at once."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weakfeedback._version import __version__
from weakfeedback.cli import completion
from weakfeedback.cli.output import (
    FAILED,
    App,
    Commands,
    Stop,
    argument,
    console,
    flag,
    option,
    print_json,
    say,
    show_traceback,
    writing_to,
)
from weakfeedback.cli.serve import serve_app
from weakfeedback.plaintext import counted

if TYPE_CHECKING:
    from weakfeedback.experiments.userfile import UserExperiment

app = App(
    cls=Commands,
    name="weakfeedback",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, flag("--json", "Print machine-readable JSON (infinity is null).")]
Workers = Annotated[int | None, option("N", "How many at a time; all cores by default.", "--workers", min=1)]

app.add_typer(serve_app, name="serve")


def main() -> None:
    """Run the command line and leave the process with its exit status."""
    app(prog_name="weakfeedback")


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"weakfeedback {__version__}")
        raise typer.Exit


@app.callback()
def start(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Deciding well when you never see the reward: simulate, compare and check policies.

    Examples:

    weakfeedback demo
    weakfeedback replay log.csv --models small,large --prices 1,20
    weakfeedback serve --demo
    weakfeedback list
    weakfeedback run experiment.toml --out results/first
    weakfeedback reproduce --quick
    weakfeedback check my_policy.py:make --setting cascade
    weakfeedback radio --players 6 --channels 10

    Exit status: 0 done, 2 wrong use or bad input, 130 interrupted, 1 anything else.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_(
    kind: Annotated[
        str,
        argument(
            "KIND",
            "settings, policies, instances or experiments; an overview by default.",
            autocompletion=completion.kinds,
        ),
    ] = "",
    pattern: Annotated[
        str,
        argument("PATTERN", "Only names like this one, such as 'bsc-*'.", autocompletion=completion.listed),
    ] = "",
    setting: Annotated[
        str, option("NAME", "Only those of one setting.", autocompletion=completion.settings)
    ] = "",
    json: Json = False,
) -> None:
    """Show settings, policies, named instances and experiments.

    Some instances need data that are not part of the package: set WEAKFEEDBACK_DATA to their folder.

    Examples:

    weakfeedback list
    weakfeedback list policies --setting cascade
    weakfeedback list instances 'bsc-*'
    weakfeedback list experiments 'ch2-xi-*'
    weakfeedback list --json | jq '.instances[].name'
    """
    from weakfeedback.cli import listing
    from weakfeedback.settings.catalog import SETTINGS

    if kind and kind not in listing.KINDS:
        raise Stop(f"KIND must be one of {', '.join(listing.KINDS)}, got {kind!r}")
    if setting and setting not in SETTINGS:
        raise Stop(f"--setting must be one of {', '.join(SETTINGS)}, got {setting!r}")
    if not (kind or setting or json):
        for line in listing.overview():
            say(line)
        return
    try:
        found = listing.everything([kind] if kind else listing.KINDS, pattern, setting)
    except listing.NothingFound as error:
        raise Stop(str(error)) from None
    if json:
        print_json(found)
    else:
        for line in listing.in_words(found):
            say(line)


@app.command()
def run(
    file: Annotated[Path, argument("FILE.toml", "The experiment.")],
    out: Annotated[
        Path | None, option("DIR", "Where to write; results/NAME for NAME.toml by default.")
    ] = None,
    workers: Workers = None,
    overwrite: Annotated[
        bool, flag("--overwrite", "Replace the results of another experiment in DIR.")
    ] = False,
    allow_code: Annotated[
        bool, flag("--allow-code", "Run policies of your own that the file names: MODULE:NAME.")
    ] = False,
    json: Json = False,
) -> None:
    """Run an experiment of your own: a problem, policies, a horizon, replications.

    Writes DIR/results.parquet, the page DIR/report/index.html and its figures.

    Finished work is kept in DIR/store: a run that was stopped continues when started again.

    Examples:

    weakfeedback run experiment.toml
    weakfeedback run experiment.toml --out results/first --json

    A small experiment file:

    setting = "cascade"
    instance = "bsc-1"
    policies = ["USS-TS", { policy = "USS-UCB", alpha = 1.0 }]
    horizon = 10000
    replications = 100

    With [sweep] it is run for several values of one key, shown on one page:

    [sweep]
    horizon = [1000, 10000]
    """
    from weakfeedback.experiments.userfile import read_experiment
    from weakfeedback.toml import BadFile

    try:
        experiment = read_experiment(file, allow_code)
    except BadFile as error:
        raise Stop(str(error)) from None
    folder = out if out is not None else Path("results") / experiment.name
    command = shlex.join(["weakfeedback", "run", str(file), "--out", str(folder)])
    command += " --allow-code" if experiment.own_code else ""
    results, paths = _run(
        experiment, folder, command, workers=workers, progress=not json, overwrite=overwrite
    )
    _tell(results, folder, paths, json)


def _run(experiment: UserExperiment, folder: Path, command: str, **ways: Any) -> tuple[Any, list[Path]]:
    """Run an experiment; every mistake ends in one line."""
    from weakfeedback.cli.output import make_writable, running_in
    from weakfeedback.engine.store import StoreError, StoreMismatch
    from weakfeedback.experiments.userrun import CHUNKS, run_file
    from weakfeedback.experiments.usersweep import VALUES, refuse_other_kind, run_sweep

    try:
        with running_in(folder):
            if not ways["overwrite"]:
                refuse_other_kind(folder, experiment.sweep is not None)
            if experiment.sweep is None:
                make_writable(folder / CHUNKS)
                return run_file(experiment, folder, command, **ways)
            make_writable(folder / VALUES)
            return run_sweep(experiment.sweep, folder, command, **ways)
    except StoreMismatch as error:
        raise Stop(f"{error} with --out, or --overwrite") from None
    except StoreError as error:
        raise Stop(str(error)) from None
    except Exception as error:
        if not experiment.own_code or isinstance(error, Stop):
            raise
        show_traceback()
        raise Stop(
            f"{experiment.name}.toml: {type(error).__name__}: {error}; `weakfeedback check` tells what is wrong "
            "with a policy",
            FAILED,
        ) from None


@app.command()
def demo(
    out: Annotated[Path, option("DIR", "Where to write.")] = Path("results/demo"), workers: Workers = None
) -> None:
    """See it work: a cascade that learns without labels, four policies compared on a page, a promise on real answers.

    Needs no data and no file: both examples come with the package. The first run compiles the policies.

    Examples:

    weakfeedback demo
    weakfeedback demo --out results/demo
    """
    from weakfeedback.cli.demo import COMPARISON, examples_folder, promised, show_cascade
    from weakfeedback.cli.output import make_writable
    from weakfeedback.experiments.userfile import read_experiment

    with writing_to(out):
        make_writable(out)
        folder = examples_folder()
    say("A cascade of three classifiers learns, without labels, which one is worth its cost:\n")
    show_cascade()
    say("\nNow four policies on the same worlds (the first run compiles them):\n")
    experiment = read_experiment(folder / COMPARISON)
    command = shlex.join(["weakfeedback", "demo", "--out", str(out)])
    results, paths = _run(experiment, out, command, workers=workers, progress=True, overwrite=True)
    _tell(results, out, paths, json=False)
    say(f"\nOpen {paths[0]} in a browser. More to run and to change: {folder}")
    say(
        f"\n{promised()}\nWould it save you money? weakfeedback replay LOG --models small,large --prices 1,20"
    )


@app.command()
def reproduce(
    more: Annotated[
        list[str] | None, typer.Argument(metavar="", hidden=True, autocompletion=completion.experiments)
    ] = None,
    quick: Annotated[bool, flag("--quick", "A tenth of the replications, at least 5.")] = False,
    only: Annotated[
        list[str] | None,
        option(
            "ID ...",
            "Only these: ids, patterns such as 'ch2-xi-*', or chapters such as ch2.",
            autocompletion=completion.experiments,
        ),
    ] = None,
    list_only: Annotated[
        bool, flag("--list", "Show the experiments and how long they would take; run nothing.")
    ] = False,
    out: Annotated[Path, option("DIR", "Where to write.")] = Path("results/reproduction"),
    workers: Workers = None,
    scheduler: Annotated[str | None, option("ADDRESS", "Run on the Dask cluster of this scheduler.")] = None,
    data: Annotated[
        Path | None, option("DIR", "The folder of the two medical data sets; WEAKFEEDBACK_DATA by default.")
    ] = None,
    json: Json = False,
) -> None:
    """Reproduce the thesis: every experiment, table and worded claim, with a verdict.

    Writes DIR/report/index.html, its figures, and the rows of each experiment in DIR/ID/results.parquet.

    Finished work is kept in DIR: a run that was stopped continues when started again, and a run with nothing to do
    only writes the page. Without the medical data sets, built-in data stand in and the page says so.

    Examples:

    weakfeedback reproduce --quick
    weakfeedback reproduce --list
    weakfeedback reproduce --only ch2-compare-bsc-1 'ch2-xi-*' --out results/some
    weakfeedback reproduce --scheduler tcp://10.0.0.1:8786
    """
    from weakfeedback.cli import reproduce as reproducing

    words = [word for option in (*(only or ()), *(more or ())) for word in option.split(",") if word]
    if more and not only:
        raise Stop(f"{more[0]!r}: experiments are chosen with --only; see `weakfeedback reproduce --help`")
    if scheduler is not None and workers is not None:
        raise Stop("--workers and --scheduler exclude each other: a cluster has its own workers")
    if (only or more) and not words:
        raise Stop("--only must name experiments, got nothing; see `weakfeedback reproduce --list`")
    if list_only:
        reproducing.show_list(words, quick, json)
        return
    found = reproducing.run(words, out, quick, workers, scheduler, data, json)
    reproducing.tell(found, out, json)


@app.command()
def report(folder: Annotated[Path, argument("DIR", "What a run wrote.")], json: Json = False) -> None:
    """Build the page and the figures again from stored results; nothing is simulated.

    Examples:

    weakfeedback report results/first
    weakfeedback report results/reproduction
    """
    from weakfeedback.cli import reproduce as reproducing
    from weakfeedback.experiments import userrun, usersweep

    if not folder.is_dir():
        raise Stop(f"{folder}: no such folder; give the folder that a run wrote")
    if reproducing.is_one(folder):
        reproducing.tell(reproducing.rebuild(folder), folder, json)
        return
    results: Any
    with writing_to(folder):
        try:
            if usersweep.is_sweep(folder):
                results, paths = usersweep.rebuild(folder)
            else:
                results, paths = userrun.rebuild(folder)
        except ValueError as error:
            show_traceback()
            raise Stop(f"{error}; give the folder that a run wrote") from None
    _tell(results, folder, paths, json)


def _tell(results: Any, folder: Path, paths: list[Path], json: bool) -> None:
    from weakfeedback.cli import listing
    from weakfeedback.experiments.userrun import ROWS
    from weakfeedback.experiments.usersweep import Swept

    swept = isinstance(results, Swept)
    found = (listing.sweep_outcome if swept else listing.outcome)(results, folder / ROWS, paths)
    if json:
        print_json(found)
    else:
        listing.show_outcome(found, console())


@app.command()
def check(
    factory: Annotated[
        str,
        argument(
            "MODULE:FACTORY",
            "A module (or a .py file) and the name of a function in it that takes a problem and returns a policy.",
        ),
    ],
    setting: Annotated[
        str,
        option("NAME", "The setting whose protocol the policy follows.", autocompletion=completion.settings),
    ],
    max_seconds: Annotated[float, option("S", "Give up after S seconds.", min=1.0)] = 300.0,
) -> None:
    """Check that a policy of your own keeps the protocol, and that its compiled twin does the same.

    The policy's code is run. Exit status 1 if a check fails or takes too long.

    Examples:

    weakfeedback check my_policy.py:make --setting cascade
    weakfeedback check my_package.policies:make --setting cascade
    """
    from weakfeedback.checks import PolicyCheckError, check_policy
    from weakfeedback.cli.time_limit import time_limit
    from weakfeedback.experiments.ownpolicy import NotAPolicy, load_factory
    from weakfeedback.settings.catalog import SETTINGS

    if setting not in SETTINGS:
        raise Stop(f"--setting must be one of {', '.join(SETTINGS)}, got {setting!r}")
    problem = SETTINGS[setting].default_problem()
    try:
        with time_limit(factory, max_seconds):
            passed = check_policy(load_factory(factory, problem), problem).passed
    except PolicyCheckError as error:
        say(str(error), error=True)
        raise typer.Exit(FAILED) from None
    except NotAPolicy as error:
        raise Stop(str(error)) from None
    except ValueError as error:
        raise Stop(f"{factory}: {error}") from None
    except SystemExit as error:
        raise Stop(f"{factory}: calls sys.exit({error.code!r})", FAILED) from None
    for name in passed:
        say(f"  passed  {name}")
    say(f"{factory}: all {counted(len(passed), 'check')} passed")


@app.command()
def radio(
    players: Annotated[int | None, option("N", "How many players; without both, 6 on 10 channels.")] = None,
    channels: Annotated[int | None, option("K", "How many channels.")] = None,
    more: Annotated[list[str] | None, typer.Argument(metavar="", hidden=True)] = None,
    seed: Annotated[int, option("S", "Replication 0 of simulate(seed=S).")] = 0,
    policy: Annotated[
        str,
        option(
            "NAME",
            "dlc-lix, dlc, musical-chairs, sic-mmab, dpe1, claims, match or selfish.",
            autocompletion=completion.players,
        ),
    ] = "dlc-lix",
    means: Annotated[
        list[str] | None,
        option("M ...", "Each channel's mean, in this order; 0.9 to 0.1, shuffled, by default."),
    ] = None,
    shuffle: Annotated[
        bool, flag("--shuffle", "Give the means to the channels in an order drawn from the seed.")
    ] = False,
    rewards: Annotated[
        str, option("NAME", "bernoulli, uniform or beta.", autocompletion=completion.rewards)
    ] = "bernoulli",
    option: Annotated[
        list[str] | None, option("NAME=VALUE", "An option of the policy, such as epsilon=0.2; repeatable.")
    ] = None,
    join: Annotated[
        list[str] | None, option("N@T", "Player N joins in slot T; repeatable. Needs claims or selfish.")
    ] = None,
    leave: Annotated[list[str] | None, option("N@T", "Player N leaves in slot T; repeatable.")] = None,
    kill: Annotated[
        list[str] | None, option("N@T", "The process of player N is killed in slot T; repeatable.")
    ] = None,
    lose: Annotated[float, option("P", "The probability that a player loses a slot.")] = 0.0,
    means_file: Annotated[
        Path | None, option("FILE", "Each player's own means: a row for each, separated by commas.")
    ] = None,
    max_slots: Annotated[
        int | None,
        option("N", "End after N slots, settled or not: 200000, or 10000 for policies that never settle."),
    ] = None,
    max_seconds: Annotated[float, option("S", "End after S seconds, settled or not.")] = 300.0,
    json: Json = False,
) -> None:
    """Run players as separate processes that share channels over loopback sockets.

    A player sends its choice and receives slot number, reward and collision; nothing else is sent. With the same seed
    and options it chooses what it chooses in a simulation. The run ends when all have settled. On a terminal the
    air is drawn while they play; elsewhere a progress line is printed from time to time.

    Examples:

    weakfeedback radio --players 6 --channels 10
    weakfeedback radio --players 2 --channels 4 --means 0.9 0.2 0.6 0.4 --json
    weakfeedback radio --players 3 --channels 5 --policy dlc --option epsilon=0.3
    weakfeedback radio --policy claims --join 2@5000 --kill 0@9000 --lose .005
    """
    from weakfeedback.cli import radio as command

    if more and not means:
        raise Stop(f"{more[0]!r}: means are given with --means; see `weakfeedback radio --help`")
    numbers = [*(means or ()), *(more or ())]
    command.radio(
        players,
        channels,
        policy,
        seed,
        numbers,
        shuffle,
        rewards,
        option or [],
        max_slots,
        max_seconds,
        json,
        {"--join": join or [], "--leave": leave or [], "--kill": kill or []},
        lose,
        means_file,
    )


@app.command("replay")
def replay_log(
    log: Annotated[str, argument("LOG", "A CSV, Parquet or JSON Lines file.")],
    models: Annotated[str, option("NAMES", "The columns of the models, by commas.")],
    prices: Annotated[str, option("NUMBERS", "What a call of each costs, by commas.")],
    reference: Annotated[str | None, option("NAME", "The model to agree with; the last by default.")] = None,
    agree: Annotated[float | None, option("SHARE", "The share of answers as the reference's.")] = None,
    budget: Annotated[float | None, option("B", "Or: money a request.")] = None,
    error_cost: Annotated[float | None, option("E", "Or: what an answer that differs costs.")] = None,
    score_suffix: Annotated[str, option("TEXT", "Ends the names of columns with scores.")] = ".score",
    group: Annotated[str | None, option("COLUMN", "A group known before the call.")] = None,
    truth: Annotated[str | None, option("COLUMN", "The truth; nothing is decided by it.")] = None,
    tokens_suffix: Annotated[
        str | None, option("TEXT", "Ends the names of columns with tokens; prices are then those of a token.")
    ] = None,
    currency: Annotated[str | None, option("TEXT", "What the prices are in, such as USD.")] = None,
    out: Annotated[Path | None, option("DIR", "Write a page into this folder.")] = None,
    as_json: Annotated[bool, flag("--json", "Print one JSON object.")] = False,
) -> None:
    """Would it save money? Play a log of the answers of several models again; no labels are needed.

    One request a row, one column per model. Without --agree, --budget or --error-cost: --agree .95.

    Examples:

    weakfeedback replay log.csv --models small,large --prices 1,20 --out page
    weakfeedback replay log.jsonl --models a,b,c --prices 1,5,20 --agree .98
    """
    import json

    from weakfeedback.replays import replay

    try:
        names = [name.strip() for name in models.split(",")]
        found = replay(
            *(log, names, _numbers_of("--prices", prices), reference, agree, budget, error_cost),
            *(score_suffix, group, truth, tokens_suffix),
            currency=currency,
        )
    except ValueError as error:
        raise Stop(str(error)) from None
    print(json.dumps(found.to_dict()) if as_json else found)
    if out is not None:
        try:
            path = found.save(out)
        except OSError as error:
            raise Stop(f"--out: {error.strerror or error}") from None
        say(f"page: {path}", error=as_json)


def _numbers_of(option: str, text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise Stop(f"{option} must be numbers separated by commas, got {text!r}") from None


@app.command("warm-up")
def warm_up(
    policy: Annotated[str | None, argument("POLICY", "One policy; all by default.")] = None,
    setting: Annotated[
        str | None,
        option("NAME", "Those of one setting; of all by default.", autocompletion=completion.settings),
    ] = None,
    workers: Workers = None,
) -> None:
    """Compile policies now, so that later runs, and live objects with compiled=True, start at once.

    What is compiled serves any number of arms or features: there is no size to give.

    Examples:

    weakfeedback warm-up
    weakfeedback warm-up --workers 2
    weakfeedback warm-up USS-TS
    weakfeedback warm-up --setting allocation
    """
    import time

    from weakfeedback.cli import warm_up as warmup

    try:
        warmup.jobs(policy, setting)
    except ValueError as error:
        raise Stop(str(error)) from None
    start, count, lost = time.perf_counter(), 0, ""
    for done in warmup.warm_up(workers, policy, setting):
        count += not done.refused
        lost = lost or done.lost
        verdict = f"not compiled: {done.refused}" if done.refused else f"{done.seconds:.1f} s"
        say(f"  {done.setting:<12} {done.policy:<12} {verdict}")
    print(f"{counted(count, 'policy', 'policies')} ready in {time.perf_counter() - start:.1f} s")
    if lost:
        say(f"weakfeedback: compiled code could not be cached: {lost}", error=True)


if __name__ == "__main__":
    main()
