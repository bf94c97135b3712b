FROM scratch
COPY a
