FROM scratch
ENV PATH
