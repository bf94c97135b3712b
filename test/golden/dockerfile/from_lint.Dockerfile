ARG BASE
ARG NAME=Upper/Case
FROM ${BASE}
FROM ${NAME}
FROM ${BSAE:-alpine}
FROM --platform=linux/arm64 alpine
FROM --platform=linux/arm64 alpine AS tool-arm64
FROM --platform=${TARGETPLATFORM} alpine
FROM alpine AS Scratch
FROM alpine as context
from alpine AS one
FROM alpine AS ONE
