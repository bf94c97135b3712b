FROM busybox
RUN --network=none --network=host true
