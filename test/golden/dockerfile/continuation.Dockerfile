FROM busybox
RUN apk add \
    # why curl
    curl \

    git   \  
	&& ec\
ho done
RUN echo "a\\"
RUN echo b \