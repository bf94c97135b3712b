FROM scratch

COYP a b
