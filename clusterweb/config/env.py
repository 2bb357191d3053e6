"""Read the environment once, with one clear line for a bad value.

Every variable of the product is here, or beside it in ``oidc.py``, ``secrets_keys.py`` and ``trace_limits.py``, with
its default. Nothing else reads ``os.environ`` for settings.
"""

import ipaddress
import os
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from clusterweb.config.env_error import LOOPBACK, EnvError
from clusterweb.config.oidc import Oidc, load_oidc
from clusterweb.config.secrets_keys import Keys, load_secrets_keys
from clusterweb.config.trace_limits import TraceLimits, load_trace_limits

BASE_DIR = Path(__file__).resolve().parents[2]

# Pages show ranges of 30 days.
LEAST_DAYS = 31
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
T = TypeVar("T")
_HOST = re.compile(r"[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?|\[[0-9a-f:]+\](?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """Settings that come from outside.

    Attributes:
        host: Address that the web server binds to. Anything but loopback needs ``SECRET_KEY`` and ``ALLOWED_HOSTS``.
        port: Port of the web server.
        var_dir: Directory of all state: database, checkpoints, logs, secrets.
        database_url: Empty for SQLite under ``var_dir``.
        redis_url: Empty when the embedded server is to be started.
        round_s: Seconds between two beats of the scheduler.
        secret_key: Key of Django's signatures.
        secrets_keys: Keys of the secrets of users and queues; None where they are in a file.
        allowed_hosts: Host names the web server answers to.
        debug: Django's debug pages; loopback only.
        lease_ttl_s: An agent whose heartbeats go unacknowledged for so long suspends its jobs.
        demo_jobs: Whether the first start submits the eight jobs of the demo.
        demo_min_run_s: The ``min_run_s`` that it sets, seconds.
        demo_week: Whether the first start makes a week of a simulated cluster instead.
        fairness_limit: Mean finish-time fairness of a queue above which its leads are notified; 0 for never.
        lost_grace_s: Seconds beyond ``lease_ttl_s`` after which the jobs of a silent server are requeued.
        site_url: How people reach the web server; for links in mails and the way back from a sign-in provider.
        webhook_networks: Networks to which webhooks may lead although they are not public, by plain HTTP as well.
        git_hosts: Hosts, with a port where it is not 443, from which code may be fetched by git.
        git_networks: Networks to which these may lead although they are not public, by plain HTTP as well.
        email_url: Mail server; empty: no user can choose mails.
        mail_from: Sender of mails.
        oidc: Outside provider of sign-ins; None: there are passwords alone.
        trace_most_mib: How large one uploaded trace may be.
        trace_limits: What reading it may cost.
        proxies: Networks of proxies whose ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are believed.
        token_most_days: After how many days a token for the REST API ends at the latest.
        keep_jobs_days: Age at which ended jobs are removed; their sums stay. See ``services/retention/policy.py``.
        keep_rounds_days: The same for rounds.
        keep_whatif_days: The same for ended what-if scenarios.
        keep_audit_days: The same for audit entries that are not of a job.
    """

    host: str
    port: int
    var_dir: Path
    database_url: str
    redis_url: str
    round_s: float
    secret_key: str
    secrets_keys: Keys | None
    allowed_hosts: tuple[str, ...]
    debug: bool
    lease_ttl_s: float
    lost_grace_s: float
    fairness_limit: float
    demo_jobs: bool
    demo_min_run_s: float
    demo_week: bool
    site_url: str
    webhook_networks: tuple[Network, ...]
    git_hosts: tuple[str, ...]
    git_networks: tuple[Network, ...]
    email_url: str
    mail_from: str
    oidc: Oidc | None
    trace_most_mib: int
    trace_limits: TraceLimits
    proxies: tuple[Network, ...]
    token_most_days: int
    keep_jobs_days: int
    keep_rounds_days: int
    keep_whatif_days: int
    keep_audit_days: int


def _parsed(environ: Mapping[str, str], name: str, default: str, parse: Callable[[str], T], right: str) -> T:
    text = environ.get(name, default)
    try:
        return parse(text)
    except ValueError:
        raise EnvError(f"{name}={text!r} cannot be used: it must be {right}.") from None


def _number(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = float(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return parse


def _url(*schemes: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text and urlsplit(text).scheme not in schemes:
            raise ValueError(text)
        return text

    return parse


def _days(environ: Mapping[str, str], name: str, default: str) -> int:
    return int(_parsed(environ, name, default, _number(LEAST_DAYS, 36_500), f"a number of days from {LEAST_DAYS} up"))


def _flag(text: str) -> bool:
    if text.lower() not in {"", "0", "1", "false", "true"}:
        raise ValueError(text)
    return text.lower() in {"1", "true"}


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


def _hosts(text: str) -> tuple[str, ...]:
    hosts = tuple(part.strip().lower() for part in text.split(",") if part.strip())
    if not all(_HOST.fullmatch(host) for host in hosts):
        raise ValueError(text)
    return hosts


def kept_secret(path: Path, *, size: int = 48) -> str:
    """Return the secret in ``path``, made on first use with mode 0600."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(size))
    return path.read_text().strip()


def load(environ: Mapping[str, str] | None = None) -> Env:
    """Return the settings of the process.

    Raises:
        EnvError: If a value is malformed or a public bind lacks what makes it safe.
    """
    source = os.environ if environ is None else environ
    var_dir = Path(source.get("VAR_DIR") or BASE_DIR / "var").expanduser().absolute()
    try:
        var_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise EnvError(f"VAR_DIR={str(var_dir)!r} cannot be used: {error.strerror}.") from None
    host = source.get("HOST", "127.0.0.1")
    public = host not in LOOPBACK
    secret_key = source.get("SECRET_KEY", "")
    if secret_key and len(secret_key) < 32:
        raise EnvError("SECRET_KEY cannot be used: it must have at least 32 characters.")
    hosts = tuple(name.strip() for name in source.get("ALLOWED_HOSTS", "").split(",") if name.strip())
    debug = _parsed(source, "DEBUG", "0", _flag, "0 or 1")
    if public and debug:
        raise EnvError(f"HOST={host!r} cannot be used with DEBUG=1: debug pages show secrets. Bind to 127.0.0.1.")
    if public and not (secret_key and hosts):
        raise EnvError(f"HOST={host!r} is reachable from outside: set SECRET_KEY and ALLOWED_HOSTS as well.")
    port = int(_parsed(source, "PORT", "8000", _number(1, 65535), "a port from 1 to 65535"))
    site_url = _parsed(source, "SITE_URL", "", _url("http", "https"), "an http:// or https:// URL")
    return Env(
        host=host,
        port=port,
        site_url=site_url.rstrip("/"),
        oidc=load_oidc(source),
        webhook_networks=_parsed(source, "WEBHOOK_NETWORKS", "", _networks, "networks such as 10.0.0.0/8,fd00::/8"),
        git_hosts=_parsed(source, "GIT_HOSTS", "", _hosts, "hosts such as github.com,git.example.com:8443"),
        git_networks=_parsed(source, "GIT_NETWORKS", "", _networks, "networks such as 10.0.0.0/8,fd00::/8"),
        email_url=_parsed(
            source, "EMAIL_URL", "", _url("smtp", "smtp+tls", "smtp+ssl"), "an smtp://, smtp+tls:// or smtp+ssl:// URL"
        ),
        mail_from=source.get("MAIL_FROM", "clusterweb@localhost"),
        trace_most_mib=int(_parsed(source, "TRACE_MOST_MIB", "256", _number(1, 4096), "a number from 1 to 4096")),
        trace_limits=load_trace_limits(source),
        proxies=_parsed(source, "FORWARDED_ALLOW_IPS", "", _networks, "addresses of proxies such as 10.0.0.5,fd00::/8"),
        token_most_days=int(_parsed(source, "TOKEN_MOST_DAYS", "365", _number(1, 3650), "a number from 1 to 3650")),
        var_dir=var_dir,
        database_url=_parsed(
            source, "DATABASE_URL", "", _url("sqlite", "postgres", "postgresql"), "a sqlite:// or postgres:// URL"
        ),
        redis_url=_parsed(source, "REDIS_URL", "", _url("redis", "rediss", "unix"), "a redis:// or unix:// URL"),
        round_s=_parsed(source, "ROUND_S", "300", _number(1, 86400), "a number of seconds from 1 to 86400"),
        secret_key=secret_key or kept_secret(var_dir / "secret_key"),
        secrets_keys=load_secrets_keys(source, var_dir),
        allowed_hosts=hosts or ("127.0.0.1", "localhost", "[::1]"),
        debug=debug,
        lease_ttl_s=_parsed(source, "LEASE_TTL_S", "30", _number(2, 3600), "a number of seconds from 2 to 3600"),
        demo_jobs=_parsed(source, "DEMO_JOBS", "1", _flag, "0 or 1"),
        demo_min_run_s=_parsed(
            source, "DEMO_MIN_RUN_S", "45", _number(0, 86400), "a number of seconds from 0 to 86400"
        ),
        demo_week=_parsed(source, "DEMO_WEEK", "0", _flag, "0 or 1"),
        fairness_limit=_parsed(source, "FAIRNESS_LIMIT", "2", _number(0, 1000), "a number from 0 to 1000"),
        keep_jobs_days=_days(source, "KEEP_JOBS_DAYS", "60"),
        keep_rounds_days=_days(source, "KEEP_ROUNDS_DAYS", "35"),
        keep_whatif_days=_days(source, "KEEP_WHATIF_DAYS", "60"),
        keep_audit_days=_days(source, "KEEP_AUDIT_DAYS", "365"),
        lost_grace_s=_parsed(source, "LOST_GRACE_S", "15", _number(1, 3600), "a number of seconds from 1 to 3600"),
    )
