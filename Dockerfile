# Two images: `shim`, the server alone (the default), and `spark`, a Spark master or worker that has the pipeline's code.
#   docker build -t kafka-group-shim .
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
COPY pipeline pipeline
RUN /opt/shim/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM base AS spark
RUN apt-get update \
    && apt-get install --yes --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && /opt/shim/bin/pip install --no-cache-dir --require-hashes -r requirements/spark.txt \
    && useradd --system --uid 10001 --home-dir /var/lib/spark --create-home spark
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
ENTRYPOINT ["kafka-shim"]
VOLUME /var/lib/kafka-shim
# Clients outside are told where the port is published; for others, say --advertise with the name they use.
CMD ["serve", "--listen", "0.0.0.0:9092", "--control", "127.0.0.1:8092", "--advertise", "localhost"]
