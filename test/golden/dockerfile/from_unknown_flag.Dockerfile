FROM --plattform=linux/arm64 a
