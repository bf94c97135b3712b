FROM scratch
ARG
