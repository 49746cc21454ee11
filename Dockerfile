# Two images: `shim`, the server alone (the default), and `spark`, a Spark master or worker that has the pipeline's code.
#   docker build -t kafka-group-shim --build-arg VERSION=1.2.3 .
#   docker build --target spark -t kafka-group-shim-spark .
FROM python:3.11-slim AS base
WORKDIR /src
COPY requirements requirements
RUN python -m venv /opt/shim \
    && /opt/shim/bin/pip install --no-cache-dir --require-hashes -r requirements/build.txt -r requirements/postgres.txt
COPY pyproject.toml README.md LICENSE ./
COPY kafka_shim kafka_shim
COPY apis apis
COPY persistence persistence
COPY shim shim
COPY conformance conformance
COPY docs/semantics docs/semantics
COPY pipeline pipeline
# The repository is not copied: who builds says which version this is.
ARG VERSION=0.0.0
RUN SETUPTOOLS_SCM_PRETEND_VERSION=$VERSION /opt/shim/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM base AS spark
RUN apt-get update \
    && apt-get install --yes --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && /opt/shim/bin/pip install --no-cache-dir --require-hashes -r requirements/spark.txt \
    && useradd --system --uid 10001 --home-dir /var/lib/spark --create-home spark \
    && install --directory --owner spark /data
ENV PATH=/opt/shim/bin:$PATH PYSPARK_PYTHON=/opt/shim/bin/python SPARK_NO_DAEMONIZE=1 SPARK_WORKER_DIR=/var/lib/spark
USER spark
WORKDIR /var/lib/spark
EXPOSE 7077 8080
ENTRYPOINT ["spark-class"]
CMD ["org.apache.spark.deploy.master.Master"]

FROM python:3.11-slim AS shim
RUN useradd --system --uid 10001 --home-dir /var/lib/kafka-shim --create-home shim
COPY --from=base /opt/shim /opt/shim
ENV PATH=/opt/shim/bin:$PATH PYTHONUNBUFFERED=1
USER shim
WORKDIR /var/lib/kafka-shim
EXPOSE 9092 8092
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=2s --start-period=2s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8092/health', timeout=1)"]
VOLUME /var/lib/kafka-shim
# Every option of `serve` can be said so, and an option after the image's name overrides it. Clients outside are told
# where the port is published. The control server is for the container alone unless somebody opens it and sets a token:
#   docker run -p 127.0.0.1:9092:9092 -p 127.0.0.1:8092:8092 -e KAFKA_SHIM_SERVE_CONTROL=0.0.0.0:8092 -e KAFKA_SHIM_CONTROL_TOKEN=... \
#       kafka-group-shim serve --lab --topic orders:6
ENV KAFKA_SHIM_SERVE_LISTEN=0.0.0.0:9092 \
    KAFKA_SHIM_SERVE_CONTROL=127.0.0.1:8092 \
    KAFKA_SHIM_SERVE_ADVERTISE=localhost
ENTRYPOINT ["kafka-shim"]
CMD ["serve"]
