FROM scratch
RUN echo hello # the shell sees this
