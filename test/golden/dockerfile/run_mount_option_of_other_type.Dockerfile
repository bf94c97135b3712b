FROM busybox
RUN --mount=type=bind,target=/x,sharing=locked true
