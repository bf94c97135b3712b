FROM busybox
RUN --network=hots true
