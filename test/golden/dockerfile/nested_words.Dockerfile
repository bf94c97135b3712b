FROM scratch
ENV A=${B:-${C:+"x y"}} D="${E#*/}" F=${G//a\/b/c}
