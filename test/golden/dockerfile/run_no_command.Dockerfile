FROM busybox
RUN --network=none
