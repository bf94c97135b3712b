FROM busybox
RUN <<EOF
set -e
# not a comment of ours
echo \
  hi
EOF
RUN <<-"END" 
	#!/bin/sh
	echo $HOME
	END
RUN cat <<A 3<<B > /out && true \
  # between
  && cat <<C
a $x
A
b
B
c
C
RUN << SPACED cat
x
SPACED
RUN echo $((1<<2)) <<<here
RUN ["cat", "<<EOF"]
