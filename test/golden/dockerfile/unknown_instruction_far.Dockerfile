FROM scratch
<<EOF hello
