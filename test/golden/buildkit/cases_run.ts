/** RUN: forms, mounts, networks, what it leaves in the tree. */
import type { Case } from "./case.ts";

export const RUN_CASES: Case[] = [
  {
    name: "run-proxies",
    dockerfile: "FROM base\nRUN env | grep -i _proxy= | sort > /e",
    buildArgs: {
      HTTP_PROXY: "http://one.example:1",
      https_proxy: "http://two.example:2",
      Ftp_Proxy: "ftp",
      NO_PROXY: "here",
      ALL_PROXY: "all",
    },
  },
  {
    name: "run-proxies-over-env",
    dockerfile: "FROM base AS a\nENV http_proxy=own\nARG no_proxy=declared\n" +
      "RUN env | grep -i _proxy= | sort > /e\nFROM a\nRUN env | grep -i _proxy= | sort > /f",
    buildArgs: { HTTP_PROXY: "http://one.example:1", NO_PROXY: "here" },
  },
  {
    name: "run-forms",
    dockerfile:
      'FROM base\nRUN echo "shell $HOME" > /1\nRUN ["sh", "-c", "echo exec $0 > /2", "a b"]\n' +
      'SHELL ["/bin/sh", "-ec"]\nRUN false || echo continued > /3\nRUN echo a \\\n  # comment\n  b > /4',
  },
  {
    name: "run-heredocs",
    dockerfile: "FROM base\nRUN <<EOF\necho one > /1\nX=$((1 + 1))\necho $X > /2\nEOF\n" +
      "RUN <<'EOS'\n#!/bin/sh\necho \"$0\" | sed 's,.*/,,' > /3\nEOS\n" +
      "RUN cat <<A - <<B >/4\nfrom a\nA\nfrom b\nB\nRUN <<-T\n\techo tabs > /5\nT",
    deliberate: { why: "a script's own name is the builder's choice", paths: ["3"] },
  },
  {
    name: "run-env",
    dockerfile: "FROM base\nARG A=1\nARG B\nARG C=c\nENV C=over D=d\nARG HTTP_PROXY\n" +
      "RUN env | grep -E '^(A|B|C|D|HOME|PATH|HTTP_PROXY)=' | sort > /env; pwd > /pwd; id > /id\n" +
      "USER user\nWORKDIR /tmp/w\nRUN env | grep -E '^(HOME|PATH)=' | sort > env; pwd > pwd; id > id",
    buildArgs: { B: "given", HTTP_PROXY: "http://proxy.example:1", UNUSED: "x" },
  },
  {
    name: "run-remove",
    dockerfile: "FROM base\nRUN mkdir -p /d/e && echo 1 > /d/1 && echo 2 > /d/e/2\n" +
      "RUN rm -r /d/e /srv/index.html && mkdir /d/e && echo 3 > /d/e/3\n" +
      "RUN rm -r /d && mkdir /d && touch /d/new\nRUN rm -r /d && echo file > /d",
  },
  {
    name: "run-replace",
    dockerfile: "FROM base\nRUN mkdir /a && touch /a/x && ln -s /a /l && echo f > /f\n" +
      "RUN rm /l && mkdir /l && touch /l/y && rm /f && ln -s /a /f\n" +
      "RUN chmod 711 /a && chown 1:2 /a/x && mv /l /moved",
  },
  {
    name: "run-special",
    deliberate: {
      why:
        "a link to a file of an earlier layer: svc keeps the new pair together, BuildKit the old one",
      paths: ["s/h2", "s/h3"],
    },
    dockerfile:
      "FROM base\nRUN mkdir /s && cd /s && mkfifo p && mknod c c 1 5 && mknod b b 7 1 && " +
      "ln -s x l && echo h > h1 && ln h1 h2 && chmod 7777 h1 && touch -t 199901010101 h1 && " +
      "chown -h 5:6 l\nRUN ln /s/h1 /s/h3",
  },
  {
    name: "run-whiteout-names",
    dockerfile:
      "FROM base\nRUN mkdir /w && touch /w/.wh /w/.wh_x /w/a.wh. && mknod /w/zero c 0 1\nRUN rm /w/.wh",
  },
  {
    name: "run-nothing",
    dockerfile: "FROM base\nRUN true\nRUN cat /etc/passwd > /dev/null",
  },
  {
    name: "run-mount-bind",
    dockerfile: "FROM base AS one\nRUN mkdir /o && echo stage > /o/f\nFROM base\nWORKDIR /w\n" +
      "RUN --mount=target=/ctx cat /ctx/f > 1; touch /ctx/x 2> /dev/null || echo refused > 2\n" +
      "RUN --mount=type=bind,source=d,target=in,rw cat in/g > 3; echo z > in/z; ls in > 4\n" +
      "RUN --mount=type=bind,from=one,source=/o/f,target=/f,readwrite=true cat /f > 5; echo w >> /f; cat /f > 6\n" +
      "RUN --mount=from=one,source=/o,dst=/o cat /o/f > 7\n" +
      "RUN --mount=from=base,src=/etc,target=/theirs ls /theirs > 8\n" +
      "RUN --mount=type=bind,source=f,target=/etc/mounted cat /etc/mounted > 9",
    files: { f: "context\n", "d/g": "g\n" },
  },
  {
    name: "run-mount-bind-missing",
    dockerfile: "FROM base\nRUN --mount=source=nope,target=/x true",
    fails: true,
  },
  {
    name: "run-mount-cache",
    dockerfile: "FROM base AS seed\nRUN mkdir /seed && echo seeded > /seed/f\nFROM base\n" +
      "RUN --mount=type=cache,target=/c,id={{id}}1 echo kept > /c/k\n" +
      "RUN --mount=type=cache,target=/d,id={{id}}1 cat /d/k > /1; stat -c '%a %u %g' /d > /2\n" +
      "RUN --mount=type=cache,target=/c,id={{id}}2,from=seed,source=/seed cat /c/f > /3\n" +
      "RUN --mount=type=cache,target=/c,id={{id}}3,mode=0700,uid=5,gid=6 stat -c '%a %u %g' /c > /4\n" +
      "RUN --mount=type=cache,target=/c,id={{id}}1,ro touch /c/x 2> /dev/null || echo refused > /5\n" +
      "RUN --mount=type=cache,target=/c,id={{id}}4,sharing=locked touch /c/x\n" +
      "RUN --mount=type=cache,target=/c,id={{id}}4,sharing=private ls /c > /6",
    deliberate: {
      why:
        "private and locked users of one id: BuildKit gives a private user the same folder when free",
      paths: [],
    },
  },
  {
    name: "run-mount-tmpfs",
    dockerfile: "FROM base\nRUN --mount=type=tmpfs,target=/t,size=1048576 echo x > /t/x; " +
      "grep ' /t ' /proc/mounts | grep -o 'size=[0-9a-z]*' > /1; stat -c %a /t > /2; " +
      "dd if=/dev/zero of=/t/big bs=1024 count=2048 2> /dev/null || echo full > /3\n" +
      "RUN --mount=type=tmpfs,target=/srv ls /srv > /4",
  },
  {
    name: "run-mount-secret",
    dockerfile: "FROM base\nRUN --mount=type=secret,id=s cat /run/secrets/s > /1; " +
      "stat -c '%a %u %g' /run/secrets/s > /2\n" +
      "RUN --mount=type=secret,id=s,target=/deep/er/file,mode=0440,uid=5,gid=6 " +
      "cat /deep/er/file > /3; stat -c '%a %u %g' /deep/er/file > /4\n" +
      'RUN --mount=type=secret,id=s,env=TOKEN echo "$TOKEN" > /5; ls /run > /6\n' +
      'RUN --mount=type=secret,id=s,env=TOKEN,target=/tok echo "$TOKEN" > /7; cat /tok > /8\n' +
      "RUN --mount=type=secret,id=absent test -e /run/secrets/absent || echo none > /9\n" +
      "WORKDIR /w\nRUN --mount=type=secret,id=s,target=rel cat rel > /10",
    secrets: { s: "open sesame" },
  },
  {
    name: "run-mount-secret-required",
    dockerfile: "FROM base\nRUN --mount=type=secret,id=absent,required true",
    fails: true,
  },
  {
    name: "run-mount-ssh-required",
    dockerfile: "FROM base\nRUN --mount=type=ssh,required=true true",
    fails: true,
  },
  {
    name: "run-mount-ssh-optional",
    dockerfile: 'FROM base\nRUN --mount=type=ssh echo "[$SSH_AUTH_SOCK]" > /1',
  },
  {
    name: "run-network-none",
    dockerfile:
      "FROM base\nRUN --network=none ip -o link | wc -l > /1; cat /etc/resolv.conf > /2 2> /dev/null",
    deliberate: { why: "resolv.conf of a step without a network: it has none", paths: ["2"] },
  },
  {
    name: "run-network-host",
    dockerfile: "FROM base\nRUN --network=host ip -o link show lo | wc -l > /1",
  },
  {
    name: "run-security-refused",
    dockerfile: "FROM base\nRUN --security=insecure true",
    fails: true,
  },
  {
    name: "run-hosts",
    dockerfile: "FROM base\nRUN grep -E 'example' /etc/hosts > /1; hostname > /2",
    addHosts: ["one.example:10.1.2.3", "six.example:::1"],
    deliberate: { why: "the host name of a step", paths: ["2"] },
  },
  {
    name: "run-touches-etc",
    dockerfile:
      "FROM base\nRUN echo x > /etc/new; rm /etc/group\nRUN --mount=type=tmpfs,target=/run/x touch /run/y",
  },
  {
    name: "run-fails",
    dockerfile: "FROM base\nRUN exit 7",
    fails: true,
  },
  {
    name: "run-volume",
    dockerfile:
      "FROM base\nRUN mkdir /v && echo before > /v/a\nVOLUME /v\nRUN echo after > /v/b\n" +
      'COPY f /v/c\nFROM base\nRUN mkdir /v\nVOLUME ["/v", "/not there"]\nCOPY --from=0 /v /v',
    files: { f: "f" },
  },
];
