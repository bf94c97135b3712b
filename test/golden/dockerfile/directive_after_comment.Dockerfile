# a comment first
# escape=`
FROM scratch
ENV a=`b
