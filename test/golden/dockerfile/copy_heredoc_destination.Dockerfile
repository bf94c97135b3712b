FROM scratch
COPY a <<EOF
EOF
