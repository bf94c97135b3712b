from busybox as base
run true
Copy a b
ENV a=b
cmd ["x"]
