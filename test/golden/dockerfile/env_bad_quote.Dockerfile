FROM scratch
ENV a="b
