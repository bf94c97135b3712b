FROM busybox AS base
FROM base
COPY a b* c/ /dst/
COPY ["with space", "/dst dir/"]
COPY --from=base --chown=1000:${GROUP} --chmod=u=rwX,go=rX --link --parents --exclude=*.md --exclude="a b/**" ./x/./y /dst
COPY --from=0 --link=false $SRC ${DST:-/d}
COPY <<one.txt <<'two.txt' plain /dst/
$A
one.txt
$B
two.txt
COPY <<-EOF /tabs
	x
		y
EOF
