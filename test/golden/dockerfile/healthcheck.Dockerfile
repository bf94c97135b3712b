FROM busybox
HEALTHCHECK --interval=1m30s --timeout=5s --start-period=10s --start-interval=500ms --retries=3 CMD curl -f "http://localhost/" || exit 1
HEALTHCHECK CMD ["/check", "a b"]
