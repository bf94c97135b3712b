# escape=`
# ESCAPE=\
FROM scratch
