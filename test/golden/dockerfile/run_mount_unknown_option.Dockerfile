FROM busybox
RUN --mount=type=cache,tagret=/x true
