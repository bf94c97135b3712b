FROM busybox
RUN echo  "two  blanks"   $HOME
RUN ["/bin/echo", "a  b", "\u00e9\n", "$HOME"]
RUN [ -f /x ] && true
RUN ["not", json]
RUN --network=none --security=insecure --device=vendor.com/gpu=all -- --weird
