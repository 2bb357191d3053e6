"""The verbs of the command and their arguments."""

import argparse
import sys
from collections.abc import Sequence

from clusterweb.cli import files, foreign, jobs, queues, secrets, servers, sign_in, sweep, templates, whatif
from clusterweb.cli.arguments import Parser, listing, queue_quota, whole_number
from clusterweb.cli.output.text import devices_named, in_words
from clusterweb.client.errors import CommandError, ServerRefused

JOB_HELP = "id, number, or J- and the number"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status.

    Args:
        arguments: The verb and its arguments; None for those that the process was started with.

    Returns:
        0 when done, 1 when refused, 2 for wrong use; with --wait the exit status of the job.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    at = words.index("--") if "--" in words else len(words)
    if not {"submit", "sweep"} & {*words[:at]}:  # only these take a command after ``--``
        at = len(words)
    try:
        given = command_parser().parse_args(words[:at])
        given.words = words[at + 1 :]
        status: int = given.run(given)
        return status
    except ServerRefused as error:  # in the cluster's word for its devices
        print(in_words(str(error), devices_named(error.device_kinds)), file=sys.stderr)
        return error.exit_status
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:  # the reader of our output has ended, such as head
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return jobs.INTERRUPTED


def command_parser() -> Parser:
    """Return what reads the arguments; the verb that was given is ``run`` of the result."""
    parser = Parser(
        prog="clusterweb", description="Submit jobs to a Clusterweb server and follow them.", allow_abbrev=False
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    shared = Parser(add_help=False)
    shared.add_argument("-o", "--output", choices=["text", "json"], default="text", help="what is printed")
    _add_job_verbs(verbs, shared)

    verb = verbs.add_parser("top", parents=[shared], help="the cluster now")
    verb.set_defaults(run=queues.top)

    verb = verbs.add_parser(
        "server", parents=[shared], help="rename, label, drain, undrain or remove a server; for admins"
    )
    verb.add_argument("action", choices=servers.ACTIONS, help="what to do")
    verb.add_argument("server", help="its name or id")
    verb.add_argument("to", nargs="*", help="rename: the new name; label: all its labels, none to take them away")
    verb.add_argument("--reason", default="", help="why; kept in the audit")
    verb.set_defaults(run=servers.server)

    verb = verbs.add_parser("quota", parents=[shared], help="queues; with --gpus or --isolation: change one")
    verb.add_argument("queue", nargs="?", help="name of a queue; all when absent")
    verb.add_argument("--gpus", type=whole_number, help="the new quota")
    verb.add_argument("--isolation", metavar="LEVEL", help="demanded of servers: none, files, user or full")
    _add_leave(verb, "--gpus: what a queue beside it keeps, which gives up GPUs in the same step; repeatable")
    verb.add_argument("--reason", default="", help="why; kept in the audit")
    verb.add_argument(
        "--ask", type=whole_number, metavar="GPUS", help="ask for this quota; users who may change it answer"
    )
    verb.add_argument("--until", metavar="DATE", help="--ask: last day on which it is needed, such as 2030-11-30")
    verb.set_defaults(run=queues.quota)

    verb = verbs.add_parser(
        "quota-requests", parents=[shared], help="requests for quota: change, answer or withdraw them"
    )
    verb.add_argument(
        "action", nargs="?", type=listing, default="ls", choices=queues.REQUEST_ACTIONS, help="what to do (ls)"
    )
    verb.add_argument("number", nargs="?", type=whole_number, help="of the request; ls needs none")
    verb.add_argument("--gpus", type=whole_number, help="change: ask for this quota; grant: give it instead")
    _add_leave(verb, "grant: what a queue beside it keeps, which gives up GPUs in the same step; repeatable")
    verb.add_argument("--until", metavar="DATE", help="change: last day on which it is needed, or none for no end")
    verb.add_argument("--reason", default="", help="change, grant, refuse: why")
    verb.add_argument("--all", action="store_true", help="ls: those that are answered as well")
    verb.set_defaults(run=queues.requests)

    verb = verbs.add_parser("costs", parents=[shared], help="what your queues cost in a month, and their budgets")
    verb.add_argument("--month", help="such as 2026-11 (UTC); the present one when absent")
    verb.set_defaults(run=queues.costs)

    verb = verbs.add_parser("whatif", parents=[shared], help="what would happen under other policies, quotas, servers")
    verb.add_argument("action", choices=whatif.ACTIONS, help="what to do")
    verb.add_argument(
        "subject",
        nargs="?",
        help="run: JSON file or -; upload: trace file; forget: id of a trace; else the id of a scenario",
    )
    verb.add_argument("--no-wait", action="store_true", help="run: print the id and end")
    verb.set_defaults(run=whatif.whatif)

    verb = verbs.add_parser("templates", parents=[shared], help="templates of your queues")
    verb.add_argument(
        "action", nargs="?", type=listing, default="ls", choices=templates.ACTIONS, help="what to do (ls)"
    )
    verb.add_argument("subject", nargs="?", help="get, rm: its number; add: YAML or JSON file with a spec, or -")
    verb.add_argument("--queue", help="add: whose it is")
    verb.add_argument("--name", help="add: what it is called")
    verb.set_defaults(run=templates.templates)

    verb = verbs.add_parser("secret", parents=[shared], help="secrets that jobs name: your own, or those of a queue")
    verb.add_argument(
        "action", type=listing, choices=secrets.ACTIONS, help="set reads the value from the terminal or from a pipe"
    )
    verb.add_argument("name", nargs="?", help="set, delete: of the secret")
    verb.add_argument("--queue", help="of this queue instead of your own")
    verb.set_defaults(run=secrets.secret)

    verb = verbs.add_parser("login", help="store the address of a server and a token")
    verb.add_argument("url", help="such as https://clusterweb.example.org")
    verb.set_defaults(run=sign_in.login)
    return parser


def _add_leave(verb: Parser, text: str) -> None:
    verb.add_argument("--leave", type=queue_quota, action="append", default=[], metavar="QUEUE=GPUS", help=text)


def _add_many_verbs(verbs: "argparse._SubParsersAction[Parser]", shared: Parser) -> None:
    verb = verbs.add_parser("sweep", parents=[shared], help="a job of each combination of values")
    verb.add_argument("spec", help="YAML or JSON file with {name} where a value goes, - or a folder, as for submit")
    verb.add_argument(
        "--grid",
        action="append",
        required=True,
        metavar="NAME=VALUES",
        help='such as lr=0.1,0.01 or seed=1..5 or wd=0..1:0.25 or opt=adam,"a, b"; repeatable',
    )
    verb.add_argument(
        "--random", type=whole_number, metavar="N", help="only so many of them, drawn at random, none twice"
    )
    verb.add_argument("--seed", type=whole_number, default=0, help="of --random (0)")
    verb.add_argument("--dry-run", action="store_true", help="print the configurations, store nothing")
    verb.add_argument("--yes", action="store_true", help="do not ask before many jobs are made")
    verb.set_defaults(run=sweep.sweep, name=None, queue=None, gpus=None, python=None)

    verb = verbs.add_parser("experiments", parents=[shared], help="list sweeps and searches, newest first")
    verb.add_argument("--limit", type=whole_number, default=50, help="at most so many (50)")
    verb.set_defaults(run=sweep.experiments)

    verb = verbs.add_parser("experiment", parents=[shared], help="the jobs of a sweep or a search, best loss first")
    verb.add_argument("action", choices=sweep.EXPERIMENT_ACTIONS, help="get, or cancel all its jobs")
    verb.add_argument("experiment", help="its id or its name")
    verb.set_defaults(run=sweep.experiment)

    verb = verbs.add_parser("arrays", parents=[shared], help="list arrays with their jobs by state, newest first")
    verb.add_argument("--limit", type=whole_number, default=50, help="at most so many (50)")
    verb.set_defaults(run=sweep.arrays)

    verb = verbs.add_parser("array", parents=[shared], help="the jobs of an array together")
    verb.add_argument("action", choices=sweep.ARRAY_ACTIONS, help="get, cancel all, or retry those that failed")
    verb.add_argument("array", help="A- and the number of its first job")
    verb.set_defaults(run=sweep.array)


def _add_job_verbs(verbs: "argparse._SubParsersAction[Parser]", shared: Parser) -> None:
    verb = verbs.add_parser(
        "submit",
        parents=[shared],
        help="submit a job; a folder is sent with it",
        usage="clusterweb submit SPEC [options]  or  clusterweb submit FOLDER [options] [-- COMMAND ...]",
    )
    verb.add_argument(
        "spec",
        help="YAML or JSON file, - for standard input, or a folder with a job.yaml; "
        "several YAML documents, or JSON objects a line each, are as many jobs",
    )
    verb.add_argument("--name", help="of a folder without job.yaml: what the job is called")
    verb.add_argument("--queue", help="of a folder without job.yaml: where it waits")
    verb.add_argument("--gpus", type=whole_number, help="of a folder without job.yaml: how many it gets (1)")
    verb.add_argument(
        "--python",
        help="of a folder without job.yaml: its file of packages (uv.lock or requirements.txt where there is one), "
        "/opt/venv of the servers, or none",
    )
    verb.add_argument("--file", action="append", default=[], help="text file for its working directory; repeatable")
    verb.add_argument("--dry-run", action="store_true", help="say where and when it starts, store nothing")
    verb.add_argument("--wait", action="store_true", help="follow its log; exit with the status of the job")
    verb.add_argument("--key", default="", help="what the same key stored within a day is not stored again")
    verb.set_defaults(run=jobs.submit)

    _add_many_verbs(verbs, shared)

    verb = verbs.add_parser("import", parents=[shared], help="a job of Slurm, Kubernetes, SkyPilot or dstack as a spec")
    verb.add_argument("file", help="script or YAML file; - for standard input")
    verb.add_argument("--queue", help="where the job is to wait")
    verb.set_defaults(run=foreign.import_)

    verb = verbs.add_parser("ls", parents=[shared], help="list jobs, newest first")
    verb.add_argument("--state", help="one or more states, with commas between")
    verb.add_argument("--queue", help="jobs of this queue and the queues below it")
    verb.add_argument("--owner", help="jobs of this user")
    verb.add_argument("--search", help="part of the name")
    verb.add_argument("--idle", action="store_true", help="running jobs that hold GPUs without using them")
    verb.add_argument("--limit", type=whole_number, default=50, help="at most so many (50)")
    verb.set_defaults(run=jobs.ls)

    verb = verbs.add_parser("get", parents=[shared], help="one job")
    verb.add_argument("job", help=JOB_HELP)
    verb.set_defaults(run=jobs.get)

    verb = verbs.add_parser("logs", help="the log of a job")
    verb.add_argument("job", help=JOB_HELP)
    verb.add_argument("-f", "--follow", action="store_true", help="go on until the job has ended")
    verb.add_argument("--tail", type=whole_number, help="so many lines from the end, at most 10000 (1000)")
    verb.add_argument("--attempt", type=whole_number, help="number of the attempt; the newest when absent")
    verb.add_argument("--rank", type=whole_number, help="of a gang: number of the process, 0 when absent")
    verb.add_argument(
        "--raw", action="store_true", help="on a terminal too as the job wrote it, with all control characters"
    )
    verb.set_defaults(run=jobs.logs)

    verb = verbs.add_parser("explain", parents=[shared], help="why a job waits, and what would start it")
    verb.add_argument("job", help=JOB_HELP)
    verb.add_argument("--apply", type=whole_number, metavar="N", help="make the change that is listed with this number")
    verb.set_defaults(run=jobs.explain)

    verb = verbs.add_parser("priority", parents=[shared], help="make a job more or less urgent")
    verb.add_argument("job", help=JOB_HELP)
    verb.add_argument("priority", type=whole_number, help="0 to 100, larger first where the policy looks at it")
    verb.set_defaults(run=jobs.priority)

    verb = verbs.add_parser("files", help="the files of jobs")
    does = verb.add_subparsers(title="commands", required=True, metavar="COMMAND")
    lister = does.add_parser(
        "ls", aliases=["list"], parents=[shared], help="list the directory of a job, or a folder in it"
    )
    lister.add_argument("job", help=JOB_HELP)
    lister.add_argument("path", nargs="?", default="", help="a folder; the whole directory when absent")
    lister.set_defaults(run=files.ls)
    get = does.add_parser("get", help="download a file; a folder, several of both, or all, as a zip")
    get.add_argument("job", help=JOB_HELP)
    get.add_argument("path", nargs="*", help="a file or a folder, as ls shows it; all files when absent")
    get.add_argument("--to", metavar="FILE", help="write it there, - for standard output; its own name when absent")
    get.add_argument("--force", action="store_true", help="write over a file that is there")
    get.set_defaults(run=files.get)
    keep = does.add_parser("keep", parents=[shared], help="keep the directory of a job that has ended for longer")
    keep.add_argument("job", help=JOB_HELP)
    which = keep.add_mutually_exclusive_group()
    which.add_argument("--days", type=whole_number, default=30, help="so many more days than now (30)")
    which.add_argument("--until", metavar="DATE", help="last day (UTC), such as 2030-11-30; up to a year ahead")
    which.add_argument("--undo", action="store_true", help="only as long as its queue keeps files")
    keep.set_defaults(run=files.keep)
    remove = does.add_parser(
        "rm", parents=[shared], help="remove files of a job that has ended, or all of it, for good"
    )
    remove.add_argument("job", help=JOB_HELP)
    remove.add_argument(
        "path", nargs="*", help="files and folders, as ls shows them; or more jobs; the whole directory when absent"
    )
    remove.add_argument("--yes", action="store_true", help="do not ask")
    remove.set_defaults(run=files.remove)

    for names, action, text in (
        (["cancel"], "cancel", "end jobs for good"),
        (["suspend", "pause"], "suspend", "stop jobs so that they can go on later"),
        (["resume"], "resume", "let suspended jobs go on"),
        (["undo"], "restore", "take back the cancel of jobs that waited, within 10 minutes"),
    ):
        verb = verbs.add_parser(names[0], aliases=names[1:], parents=[shared], help=text)
        verb.add_argument("job", nargs="+", help=JOB_HELP)
        verb.set_defaults(run=jobs.act, action=action)
