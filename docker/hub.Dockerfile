# The hub of a team (docs/guides/docker.md). Build it in the root of the checkout, or with docker/compose.yaml:
#   docker build -f docker/hub.Dockerfile -t filrouge-hub:local .

FROM python:3.11-slim-trixie AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /dist .

FROM python:3.11-slim-trixie
RUN --mount=type=bind,from=build,source=/dist,target=/dist \
    python -m venv /opt/filrouge \
    && /opt/filrouge/bin/python -m pip install --no-cache-dir "$(echo /dist/*.whl)[hub]" \
    && FILROUGE_MODELS=/opt/filrouge/models /opt/filrouge/bin/python -m filrouge.providers.e5 \
    && chmod -R a+rX /opt/filrouge/models
# The hub keeps nothing outside its database, so its user needs no home; the embedding model is part of the image.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin filrouge
ENV PATH=/opt/filrouge/bin:$PATH \
    FILROUGE_MODELS=/opt/filrouge/models
USER 10001:10001
WORKDIR /
# Healthy = the hub and its database answer. Where the hub does TLS itself, replace this check.
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 \
    CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8790, timeout=8); c.request('GET', '/health'); raise SystemExit(c.getresponse().status != 200)"]
# FILROUGE_HUB_DATABASE names the database. `serve` listens on 127.0.0.1 of the container; compose.yaml says what is
# in front of it.
ENTRYPOINT ["filrouge", "hub"]
CMD ["serve"]
