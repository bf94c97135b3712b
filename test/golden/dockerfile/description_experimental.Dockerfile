# check=experimental=InvalidDefinitionDescription

# something else
FROM alpine AS build
# VERSION what to fetch
ARG VERSION
# whatever
ARG OTHER
