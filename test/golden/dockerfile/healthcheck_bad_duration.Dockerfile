FROM busybox
HEALTHCHECK --interval=30 CMD true
