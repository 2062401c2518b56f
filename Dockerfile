# Hermes as a container: `docker build -t hermes .`; docs/install.md says how to run it.
FROM rust:1.95.0-bookworm AS build
# The image's own toolchain, without the tools that only development needs.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY . .
RUN cargo build --locked --release -p hermes && install -m 755 target/release/hermes /hermes

FROM debian:bookworm-slim
# git and python3 are for the agent's own work; tini takes in processes that lose their parents.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git python3 tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10000 --create-home --shell /usr/sbin/nologin hermes \
    && install -d -o hermes -g hermes -m 700 /data
COPY --from=build /hermes /usr/local/bin/hermes
ENV HERMES_HOME=/data
VOLUME /data
USER hermes
WORKDIR /home/hermes
EXPOSE 8642
HEALTHCHECK --interval=30s --timeout=10s --start-period=15s CMD ["hermes", "gateway", "status"]
ENTRYPOINT ["/usr/bin/tini", "--", "hermes"]
CMD ["gateway", "run"]
