FROM busybox
COPY <<A <<B /dst/
a
A
b
