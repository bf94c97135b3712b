#!/usr/bin/env -S docker build -f
# syntax=docker/dockerfile:1
FROM scratch
