FROM busybox
RUN --mount=from=$STAGE,target=/x true
