FROM scratch
COPY --chown a b
