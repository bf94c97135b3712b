FROM busybox
ONBUILD COPY --chown=1:1 . /app
onbuild run <<EOF
make $X
EOF
ONBUILD   ENV a=b \
   c=d
