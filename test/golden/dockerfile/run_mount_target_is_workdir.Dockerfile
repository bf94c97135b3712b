FROM busybox
WORKDIR /src
RUN --mount=from=busybox true
RUN --mount=type=cache,id=x true
