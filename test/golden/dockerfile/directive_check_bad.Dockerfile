# check=skp=all
FROM scratch
