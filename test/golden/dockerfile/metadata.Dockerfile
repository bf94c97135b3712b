FROM scratch
WORKDIR /a b/c
USER app:app
EXPOSE 80 443/TCP 8000-8002/udp 127.0.0.1:53:53/udp ${PORTS:-9}
VOLUME /data /log
VOLUME ["/a b", " /c "]
STOPSIGNAL SIGINT
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ENTRYPOINT ["/app"]
CMD []
MAINTAINER Some One <some@example.com>
HEALTHCHECK NONE
