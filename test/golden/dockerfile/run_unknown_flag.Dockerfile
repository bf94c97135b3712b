FROM busybox
RUN --mout=type=cache,target=/x true
