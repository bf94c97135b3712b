FROM scratch
COPY --form=base a b
