"""Django settings. All that differs between machines comes from ``clusterweb.config.env``."""

from urllib.parse import urlsplit

import environ

from clusterweb.config import env as clusterweb_env
from clusterweb.config.broker import made_url
from clusterweb.config.logging import LOGGING  # noqa: F401  (read by Django)

ENV = clusterweb_env.load()
BASE_DIR = clusterweb_env.BASE_DIR
VAR_DIR = ENV.var_dir

SECRET_KEY = ENV.secret_key
SECRETS_KEYS = ENV.secrets_keys
DEBUG = ENV.debug
ALLOWED_HOSTS = list(ENV.allowed_hosts)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "channels",
    "scheduler",
    "frontend",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "clusterweb.middleware.RequestIdMiddleware",
    "scheduler.api.health.request_times.RequestTimesMiddleware",
    "clusterweb.middleware.SecurityHeadersMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "clusterweb.middleware.SignInRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "clusterweb.urls"
ASGI_APPLICATION = "clusterweb.asgi.application"
APPEND_SLASH = True

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "DIRS": [
            *sorted((BASE_DIR / "frontend").glob("pages/*/templates")),
            BASE_DIR / "frontend/components/templates",
        ],
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "frontend.components.context.shell",
            ],
        },
    },
]

if ENV.database_url.startswith("postgres"):
    DATABASES = {
        "default": {**environ.Env.db_url_config(ENV.database_url), "CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}
    }
else:
    path = ENV.database_url.removeprefix("sqlite:///") or str(VAR_DIR / "clusterweb.sqlite3")
    DATABASES = {
        "default": {
            "ENGINE": "clusterweb.sqlite",
            "NAME": path,
            "CONN_MAX_AGE": 60,
            "TEST": {"NAME": ":memory:"},  # pytest-django knows no other engine to be so by itself
            # IMMEDIATE: a deferred transaction that turns from reading to writing fails at once under contention.
            # FULL: an acknowledged submit survives a power cut.
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;PRAGMA foreign_keys=ON;",
            },
        }
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "sign-in"
OIDC = ENV.oidc
TOKEN_MOST_DAYS = ENV.token_most_days
# Anybody can write X-Forwarded-For: what it says is believed from these alone.
PROXIES = [str(network) for network in ENV.proxies]

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False

STATIC_URL = "/static/"
STATIC_ROOT = VAR_DIR / "static"
STATICFILES_DIRS = [*sorted((BASE_DIR / "frontend").glob("pages/*/static")), BASE_DIR / "frontend/components/static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"},
}

SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
if ENV.site_url.startswith("https://"):
    # TLS ends at a proxy, so requests look plain here: its address is what forms may come from, and cookies stay on it.
    CSRF_TRUSTED_ORIGINS = ["https://" + urlsplit(ENV.site_url).netloc]
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = 31_536_000
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024

# Broker, channel layer, agents.
# Commands beside a running `make run` reach its broker, too.
BROKER_URL = ENV.redis_url or made_url(ENV)
REDIS_URL = BROKER_URL or "redis://127.0.0.1:6379/0"
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    # Limits of requests, sign-ins and connections: several web processes count as one.
    "shared": {"BACKEND": "clusterweb.shared_cache.SharedCache", "LOCATION": BROKER_URL, "KEY_PREFIX": "web"}
    if BROKER_URL
    else {"BACKEND": "clusterweb.shared_cache.LocalCache"},
}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        # No socket timeout: an idle subscription must not be cut after five seconds.
        "CONFIG": {"hosts": [{"address": REDIS_URL, "socket_timeout": None}]},
    }
}

# Uploaded traces; shared between web and simulations.
TRACES_DIR = VAR_DIR / "traces"
TRACE_MOST_MIB = ENV.trace_most_mib
TRACE_LIMITS = ENV.trace_limits

# Files of jobs (working directories, logs, checkpoints); shared between agents and web.
SHARED_DIR = VAR_DIR / "shared"
# Where code may be fetched from by git; none: nowhere.
GIT_HOSTS = list(ENV.git_hosts)
GIT_NETWORKS = list(ENV.git_networks)

# Webhooks and mails.
SITE_URL = ENV.site_url  # empty: as the browser writes it
WEBHOOK_NETWORKS = list(ENV.webhook_networks)
DEFAULT_FROM_EMAIL = ENV.mail_from
EMAIL_TIMEOUT = 10
MAILS_ARE_SENT = bool(ENV.email_url)
if MAILS_ARE_SENT:
    vars().update(environ.Env.email_url_config(ENV.email_url))
else:
    EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"

ROUND_S = ENV.round_s
LEASE_TTL_S = ENV.lease_ttl_s
LOST_GRACE_S = ENV.lost_grace_s
KEEP_JOBS_DAYS = ENV.keep_jobs_days
KEEP_ROUNDS_DAYS = ENV.keep_rounds_days
KEEP_WHATIF_DAYS = ENV.keep_whatif_days
KEEP_AUDIT_DAYS = ENV.keep_audit_days
FAIRNESS_LIMIT = ENV.fairness_limit  # mean finish-time fairness of a queue above which its leads are notified; 0: never

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "scheduler.api.http.authentication.BearerAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["scheduler.api.http.permissions.DenyUnlessAllowed"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "scheduler.api.http.errors.problem_response",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Clusterweb",
    "DESCRIPTION": "Submit and follow training jobs, set quotas, read every decision of the scheduler.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",  # its schemas are JSON Schema, as the one of a job spec is
    "POSTPROCESSING_HOOKS": [],  # enums stay where they are used
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}
