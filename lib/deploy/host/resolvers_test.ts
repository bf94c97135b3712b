import assert from "node:assert/strict";
import { silent } from "../../base/log.ts";
import { type Question, Rcode, RecordType } from "../../runtime/dns/message.ts";
import { bridgeNetwork } from "../../runtime/network.ts";
import type { NamedInstance } from "./names.ts";
import { answerFor, Resolvers } from "./resolvers.ts";

const front = bridgeNetwork("10.4", 1);
const back = { ...bridgeNetwork("10.4", 2, { internal: true }), secondary: true };

/** As much of an instance as names need. */
function instance(
  name: string,
  replica: number,
  networks: [typeof front, string, string[]?][],
  phase = "ready",
): NamedInstance {
  const attachments = networks.map(([network, ip, aliases = []]) => ({ network, ip, aliases }));
  return {
    deployment: name,
    id: `${name}-${replica}`,
    standing: phase === "ready" ? "ready" : undefined,
    leaving: phase === "leaving",
    made: {},
    networks: attachments,
  } as unknown as NamedInstance;
}

const all = [
  instance("web", 0, [[front, "10.4.1.2", ["site"]], [back, "10.4.2.2"]]),
  instance("web", 1, [[front, "10.4.1.3"]]),
  instance("web", 9, [[front, "10.4.1.9"]], "leaving"),
  instance("db", 0, [[back, "10.4.2.3", ["Store"]]]),
];

const question = (name: string, type: number = RecordType.A): Question => ({
  name,
  type,
  internet: true,
});
const ask = (name: string, from: string, network = front) =>
  answerFor(question(name), from, network, all);
const addresses = (...ips: string[]) => ({ authoritative: true, addresses: ips });

Deno.test("deployments, replicas and aliases by name, on the asker's networks", () => {
  assert.deepEqual(ask("web", "10.4.1.3"), addresses("10.4.1.2", "10.4.1.3"));
  assert.deepEqual(ask("web-1", "10.4.1.2"), addresses("10.4.1.3"));
  assert.deepEqual(ask("site", "10.4.1.2"), addresses("10.4.1.2"));
  assert.deepEqual(ask("store", "10.4.1.2"), addresses("10.4.2.3"), "its second network's");
  assert.equal(ask("db", "10.4.1.3"), "forward", "not on a network of the asker's");
  assert.deepEqual(ask("web-0", "10.4.1.77"), addresses("10.4.1.2"), "an asker nobody knows");
});

Deno.test("a name that is known has no other records; what is unknown is asked elsewhere", () => {
  assert.deepEqual(answerFor(question("web", 28), "10.4.1.3", front, all), addresses());
  assert.equal(ask("example.org", "10.4.1.3"), "forward");
  assert.equal(
    answerFor({ ...question("web"), internet: false }, "10.4.1.3", front, all),
    "forward",
  );
  assert.deepEqual(ask("example.org", "10.4.2.3", back), { rcode: Rcode.nameError }, "internal");
});

Deno.test("addresses have names; those of the networks are asked nowhere else", () => {
  const reverse = (address: string) =>
    answerFor(
      question(`${address.split(".").reverse().join(".")}.in-addr.arpa`, RecordType.PTR),
      "10.4.1.3",
      front,
      all,
    );
  assert.deepEqual(reverse("10.4.1.2"), { authoritative: true, names: ["web-0"] });
  assert.deepEqual(reverse("10.4.1.9"), { authoritative: true, rcode: Rcode.nameError });
  assert.equal(reverse("192.0.2.1"), "forward");
});

Deno.test("switched off, or where the bridge is not there, no network has a resolver", async () => {
  for (const enabled of [false, true]) {
    const resolvers = new Resolvers({ enabled, log: silent, instances: () => all });
    // Of the reserved class E: no interface has it.
    const network = { ...front, subnet: "240.0.0.0/24" };
    await resolvers.serve([network]);
    assert.equal(resolvers.address(network), undefined);
    await resolvers.stop();
  }
});

Deno.test("addresses of IPv6 are told to who asks for them, and have names", () => {
  const six = { ...front, subnet6: "fd00::/64" };
  const both = [instance("web", 0, [[six, "10.4.1.2"]]), instance("old", 0, [[six, "10.4.1.3"]])];
  (both[0].networks[0] as { ip6?: string }).ip6 = "fd00::2";
  const of = (name: string, type: number) => answerFor(question(name, type), "10.4.1.3", six, both);
  assert.deepEqual(of("web", RecordType.AAAA), addresses("fd00::2"));
  assert.deepEqual(of("web", RecordType.A), addresses("10.4.1.2"));
  assert.deepEqual(of("old", RecordType.AAAA), addresses(), "it has none");
  const reverse = (digit: string) => `${digit}.${"0.".repeat(27)}0.0.d.f.ip6.arpa`;
  assert.deepEqual(of(reverse("2"), RecordType.PTR), { authoritative: true, names: ["web-0"] });
  assert.deepEqual(of(reverse("7"), RecordType.PTR), {
    authoritative: true,
    rcode: Rcode.nameError,
  });
});
