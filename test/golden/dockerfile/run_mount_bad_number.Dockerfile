FROM busybox
RUN --mount=type=cache,target=/x,mode=rwx true
