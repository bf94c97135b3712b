FROM scratch
ENV a=${b:=c}
