FROM busybox
ONBUILD FROM alpine
