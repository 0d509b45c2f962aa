# One image for every part of lastword: its arguments are those of the command line, `api`, `worker`, `topics create`, ...
#
# BASE needs Python 3.11 or newer as `python3`, with `venv`. PIP_INDEX_URL names another package index than pip's own.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
ARG PIP_INDEX_URL
WORKDIR /build
COPY requirements/server.txt requirements/build.txt requirements/
RUN python3 -m venv tools \
 && python3 -m venv --without-pip /opt/lastword \
 && tools/bin/pip --python /opt/lastword/bin/python --disable-pip-version-check --no-cache-dir \
      install --require-hashes -r requirements/server.txt \
 && tools/bin/pip --disable-pip-version-check --no-cache-dir install --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY lastword lastword
COPY schemas schemas
COPY producers producers
COPY projector projector
COPY query_api query_api
RUN tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir wheels . \
 && tools/bin/pip --python /opt/lastword/bin/python install --no-deps --no-index wheels/*.whl

FROM ${BASE}
COPY --from=build /opt/lastword /opt/lastword
ENV PATH=/opt/lastword/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    LASTWORD_HOST=0.0.0.0 \
    LASTWORD_WORKER_HOST=0.0.0.0
USER 10001:10001
EXPOSE 7411 7414
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s CMD ["python", "-m", "lastword.health"]
ENTRYPOINT ["lastword"]
CMD ["api"]
