FROM busybox
RUN <<EOF
echo
 EOF
