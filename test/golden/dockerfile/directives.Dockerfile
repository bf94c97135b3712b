# syntax=docker/dockerfile:1
# Escape=`
#check=skip=JSONArgsRecommended,StageNameCasing;error=true
# not a directive
FROM busybox AS Base
RUN dir C:\ `
  && echo on
WORKDIR C:\app
CMD run it
