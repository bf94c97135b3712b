FROM busybox
RUN --mount=target=/src,source=sub,rw \
    --mount=type=cache,id=go,dst=/root/.cache,sharing=locked,mode=0700,uid=1000,gid=1000,from=base,src=/c \
    --mount=type=tmpfs,target=/tmp,size=64m \
    --mount=type=secret,id=npm,env=TOKEN,required \
    --mount=type=secret,target=/etc/key,mode=0440 \
    --mount=type=ssh,id=git,required=true \
    --mount=type=cache,target=/var/${NAME} \
    make
