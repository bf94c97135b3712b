# escape=/
FROM scratch
