# build compiles it
FROM alpine AS build
# not of the stage

FROM alpine AS final
