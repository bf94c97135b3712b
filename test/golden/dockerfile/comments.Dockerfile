
# one
   # two, indented
FROM scratch
  # three

LABEL a=1
