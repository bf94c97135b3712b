FROM scratch
COPY --link=yes a b
