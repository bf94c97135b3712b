FROM scratch
VOLUME ["/a", " "]
