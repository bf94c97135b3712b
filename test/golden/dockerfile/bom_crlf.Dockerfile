FROM busybox
RUN echo a \
  b
COPY <<EOF /x
line
EOF
