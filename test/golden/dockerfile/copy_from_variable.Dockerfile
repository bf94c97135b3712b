FROM scratch
COPY --from=$X a b
