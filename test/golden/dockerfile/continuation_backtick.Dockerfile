# escape=`
FROM busybox
RUN a `
 b\
RUN c ``
