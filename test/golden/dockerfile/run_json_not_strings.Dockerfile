FROM busybox
RUN ["echo", 1]
