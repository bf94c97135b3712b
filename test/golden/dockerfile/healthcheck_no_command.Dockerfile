FROM busybox
HEALTHCHECK --interval=30s CMD
