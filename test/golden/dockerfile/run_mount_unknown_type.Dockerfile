FROM busybox
RUN --mount=type=cach,target=/x true
