FROM scratch
ADD --checksum=sha256:24454f830cdb571e2c4ad15481119c43b3cafd48dd869a9b2945d1036d1dc68d https://example.com/a.tar.gz /
ADD --keep-git-dir=true --unpack=FALSE https://example.com/r.git#v1:sub /r
ADD --unpack --link a.tar /x
ADD <<EOF /e
EOF
