# The service, small and without root. Build: docker build -t weakfeedback .
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE requirements.lock ./
COPY src src
COPY examples examples
# the locked versions of what the service needs, without the tools to change it
RUN python -m venv /opt/weakfeedback \
 && sed -e '/^ *--hash/d' -e 's/ \\$//' requirements.lock > constraints.txt \
 && /opt/weakfeedback/bin/pip install --no-cache-dir --constraint constraints.txt ".[serve,postgres,otel]"

FROM python:3.13-slim
COPY --from=build /opt/weakfeedback /opt/weakfeedback
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin weakfeedback \
 && install -d -o weakfeedback -g weakfeedback -m 700 /data
USER 10001
ENV PATH=/opt/weakfeedback/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    WEAKFEEDBACK_HOST=0.0.0.0 \
    WEAKFEEDBACK_STORE=sqlite:////data/weakfeedback.db \
    WEAKFEEDBACK_CACHE=/data/cache \
    WEAKFEEDBACK_LOG=json
VOLUME /data
EXPOSE 8470
STOPSIGNAL SIGTERM
# others can reach it, so it wants a token: WEAKFEEDBACK_ADMIN_TOKEN or WEAKFEEDBACK_ADMIN_TOKEN_FILE
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
  CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ.get('WEAKFEEDBACK_PORT', '8470') + '/health/ready', timeout=2)"]
ENTRYPOINT ["weakfeedback", "serve"]
