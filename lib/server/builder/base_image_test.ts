import assert from "node:assert/strict";
import { baseImageOf } from "./base_image.ts";

const release = (fields: Record<string, string>) =>
  Object.entries(fields).map(([key, value]) => `${key}="${value}"\n`).join("");

Deno.test("the base image is the host's distribution", () => {
  const cases: [Record<string, string>, string | undefined][] = [
    [{ ID: "debian", VERSION_ID: "12", VERSION_CODENAME: "bookworm" }, "debian:12"],
    [{ ID: "debian", VERSION_CODENAME: "trixie" }, "debian:trixie"],
    [{ ID: "ubuntu", VERSION_ID: "24.04", UBUNTU_CODENAME: "noble" }, "ubuntu:24.04"],
    [{ ID: "fedora", VERSION_ID: "42" }, "fedora:42"],
    [{ ID: "alpine", VERSION_ID: "3.20.3" }, "alpine:3.20"],
    [{ ID: "rocky", VERSION_ID: "9.4" }, "rockylinux/rockylinux:9"],
    [{ ID: "rhel", VERSION_ID: "9.4" }, "almalinux:9"],
    [{ ID: "amzn", VERSION_ID: "2023" }, "amazonlinux:2023"],
    [{ ID: "opensuse-leap", VERSION_ID: "15.6" }, "opensuse/leap:15.6"],
    [{ ID: "arch" }, "archlinux:latest"],
    [{ ID: "linuxmint", VERSION_ID: "22", UBUNTU_CODENAME: "noble" }, "ubuntu:noble"],
    [{ ID: "raspbian", VERSION_ID: "12", VERSION_CODENAME: "bookworm" }, "debian:bookworm"],
    [{ ID: "nixos", VERSION_ID: "24.11" }, undefined],
    [{ ID: "almalinux" }, undefined],
    [{ ID: "constructor", VERSION_ID: "1" }, undefined],
    [{}, undefined],
  ];
  for (const [fields, image] of cases) assert.equal(baseImageOf(release(fields)), image);
});

Deno.test("os-release is read with and without quotes, comments and spaces", () => {
  const image = "debian:12";
  for (const text of ["ID=debian\nVERSION_ID=12", "# x\nID='debian' \nVERSION_ID=\"12\"\n"]) {
    assert.equal(baseImageOf(text), image);
  }
});
