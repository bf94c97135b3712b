ARG A=1
RUN true
FROM scratch
