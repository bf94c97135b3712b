FROM scratch
SHELL /bin/bash -c
