# One image for every process; docker-compose.yml says which command each container runs.
# Bookworm for its PostgreSQL client: backups need the release of the server, 15.
FROM python:3.11-slim-bookworm
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PYTHON=python VAR_DIR=/var/lib/clusterweb
# The number of the user is fixed: files that are mounted one by one belong to it.
RUN apt-get update \
    && apt-get install -y --no-install-recommends git postgresql-client-15 tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 999 clusterweb \
    && useradd --system --uid 999 --gid 999 --create-home --home-dir /var/lib/clusterweb clusterweb \
    && install -d -o clusterweb -g clusterweb -m 700 /var/lib/clusterweb/shared /var/lib/clusterweb/agent
WORKDIR /srv/clusterweb
COPY requirements.txt pyproject.toml manage.py ./
RUN pip install -r requirements.txt
COPY fixtures/costs fixtures/costs/
COPY fixtures/profiles fixtures/profiles/
COPY agents agents/
COPY clusterweb clusterweb/
COPY clusterweb_runtime clusterweb_runtime/
COPY frontend frontend/
COPY scheduler scheduler/
USER clusterweb
# tini reaps what killed jobs leave behind.
ENTRYPOINT ["tini", "--"]
