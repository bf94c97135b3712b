import assert from "node:assert/strict";
import { type CdiDevice, deviceAccess, matchDevices, readDevices } from "./cdi.ts";

async function withFolders(
  files: Record<string, string>,
  work: (folders: string[]) => Promise<void>,
): Promise<void> {
  const root = await Deno.makeTempDir({ prefix: "svc-cdi-" });
  try {
    for (const name of ["first", "second"]) await Deno.mkdir(`${root}/${name}`);
    for (const [path, text] of Object.entries(files)) {
      await Deno.writeTextFile(`${root}/${path}`, text);
    }
    await work([`${root}/first`, `${root}/none`, `${root}/second`]);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

const VENDOR = `
cdiVersion: "0.6.0"
kind: vendor.example/device
annotations: { org.mobyproject.buildkit.device.autoallow: true }
containerEdits: { env: [ALL=1], additionalGids: [44] }
devices:
- name: two
  containerEdits: { env: [TWO=1] }
- name: one
  annotations: { org.mobyproject.buildkit.device.class: fast }
  containerEdits:
    env: [ONE=1]
    mounts: [{ hostPath: /dev, containerPath: /lib/x, options: [ro, nosuid, bind] }]
    hooks: [{ hookName: createContainer, path: /bin/hook, args: [hook, now] }]
`;
const OTHER = JSON.stringify({
  cdiVersion: "0.6.0",
  kind: "other.example/device",
  devices: [{
    name: "3",
    annotations: {
      "org.mobyproject.buildkit.device.class": "fast",
      "org.mobyproject.buildkit.device.autoallow": "false",
    },
    containerEdits: {},
  }],
});

/** Their files speak of paths as Unix has them. */
const onUnix = (name: string, fn: () => Promise<void>) =>
  Deno.test({ name, ignore: Deno.build.os === "windows", fn });

const names = (devices: CdiDevice[]) => devices.map(({ name }) => name);

Deno.test("CDI: devices are found by name, kind, star and class", async () => {
  const files = { "first/v.yaml": VENDOR, "first/o.json": OTHER, "first/note.txt": "no spec" };
  await withFolders(files, async (folders) => {
    const { devices, unread } = await readDevices(folders);
    assert.deepEqual(unread, []);
    const found = (request: string) => names(matchDevices(devices, request));
    const [one, two] = ["vendor.example/device=one", "vendor.example/device=two"];
    assert.deepEqual(found(one), [one]);
    assert.deepEqual(found("vendor.example/device"), [two]);
    assert.deepEqual(found("vendor.example/device=*"), [two, one]);
    assert.deepEqual(found("fast"), ["other.example/device=3", one]);
    assert.deepEqual(found("vendor.example/device=fast"), [one]);
    for (const missing of ["vendor.example/device=four", "nobody.example/device", "slow"]) {
      assert.deepEqual(found(missing), []);
    }
    assert.deepEqual(devices.map(({ allowed }) => allowed), [false, true, true]);
  });
});

onUnix("CDI: what devices of one file have in common comes once, before their own", async () => {
  await withFolders({ "first/v.yaml": VENDOR }, async (folders) => {
    const { devices } = await readDevices(folders);
    assert.deepEqual(await deviceAccess(devices), {
      env: ["ALL=1", "TWO=1", "ONE=1"],
      nodes: [],
      mounts: [{ source: "/dev", target: "/lib/x", readOnly: true, kind: "directory" }],
      hooks: { createContainer: [{ path: "/bin/hook", args: ["hook", "now"] }] },
      gids: [44],
    });
  });
});

onUnix("CDI: the last folder's device counts; files that are none are named", async () => {
  const files = {
    "first/v.yaml": VENDOR,
    "second/v.yaml": VENDOR.replaceAll("ONE=1", "ONE=2"),
    "second/cut.yaml": "devices: [",
    "second/empty.json": "",
  };
  await withFolders(files, async (folders) => {
    const { devices, unread } = await readDevices(folders);
    assert.equal(devices.length, 2);
    const { env } = await deviceAccess(matchDevices(devices, "vendor.example/device=one"));
    assert.deepEqual(env, ["ALL=1", "ONE=2"]);
    assert.deepEqual(unread, [`${folders[2]}/cut.yaml`, `${folders[2]}/empty.json`]);
  });
});

Deno.test({
  name: "CDI: nodes of the host, under another name and with other owners",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const device = (edits: object): CdiDevice => ({
      name: "vendor.example/device=it",
      kind: "vendor.example/device",
      allowed: false,
      edits: [edits],
    });
    const node = {
      path: "/dev/it",
      hostPath: "/dev/null",
      permissions: "r",
      fileMode: 0o600,
      gid: 7,
    };
    const { nodes } = await deviceAccess([device({ deviceNodes: [node] })]);
    assert.deepEqual(nodes, [{
      path: "/dev/it",
      type: "c",
      major: 1,
      minor: 3,
      fileMode: 0o600,
      uid: 0,
      gid: 7,
      access: "r",
    }]);
    const refused: [object, RegExp][] = [
      [
        { deviceNodes: [{ path: "/dev/no-such-device" }] },
        /there is no device \/dev\/no-such-device/,
      ],
      [{ deviceNodes: [{ path: "/etc/passwd" }] }, /there is no device \/etc\/passwd/],
      [{ mounts: [{ hostPath: "/no/such", containerPath: "/x" }] }, /there is no \/no\/such/],
      [{ mounts: [{ hostPath: "x", containerPath: "/x", type: "tmpfs" }] }, /it mounts a tmpfs/],
      [{ netDevices: [] }, /its netDevices are not known here/],
    ];
    for (const [edits, message] of refused) {
      await assert.rejects(deviceAccess([device(edits)]), { code: "unsupported", message });
    }
  },
});
