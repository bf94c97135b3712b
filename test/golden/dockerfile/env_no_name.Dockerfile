FROM scratch
ENV =b
