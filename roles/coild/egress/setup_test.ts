import assert from "node:assert/strict";
import type { Egress } from "../../../lib/api/mod.ts";
import { type EgressFacts, gatewayMark } from "../../../lib/egress/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import type { V1EndpointSlice } from "../../../lib/kube/mod.ts";
import { Netns, openLibc } from "../../../lib/linux/mod.ts";
import { FouUnsupportedError } from "../../../lib/netlink/mod.ts";
import { InvalidNetworkError, NotReadyError } from "../base/errors.ts";
import type { Attachment } from "../calls/attachment.ts";
import type { EgressPlane } from "./plane.ts";
import type { EgressReports } from "../clients/reports.ts";
import { EgressSetup } from "./setup.ts";

openLibc(); // stays open, so it must not be counted as a test's leak

const { signal } = new AbortController();
const SENDERS = ["10.64.0.9", "10.64.0.10"];
const CLIENT = { "egress.coil.cybozu.com/nat": "internet" };
const BOTH = { ...CLIENT, "egress.coil.cybozu.com/dmz": "internet" };

const ATTACHMENT: Attachment = {
  key: { containerId: "c1", ifname: "eth0" },
  pod: { namespace: "team", name: "web" },
  addresses: {
    ipv4: Address.parse("10.64.0.1"),
    ipv6: Address.parse("fd64::1"),
  },
  openNetns: () => Promise.resolve(Netns.open("/proc/self/ns/net")),
};

/** EgressSetup of one pod, whose gateways and kernel are notes. */
class Site {
  /** Namespaces whose changes are reported. */
  readonly followed = new Set(["nat", "dmz"]);
  /** "STEP DETAIL" of each call of another part. */
  readonly done: string[] = [];
  /** Gateways of Egress "nat/internet" that the kernel has. */
  readonly chosen = new Set<string>();
  damage: readonly string[] = [];
  /** Whether the pod's address cannot be used yet. */
  awaitsAddress = false;
  unsupported: Error | undefined;
  /** Why connections cannot be ended. */
  refusal: Error | undefined;
  /** What the API server has where that is not what is cached. */
  uncached: readonly string[] | undefined;
  /** What the EndpointSlices have. */
  senders: readonly string[] = SENDERS;
  readonly health = {
    avoided: new Set<string>(),
    lost: new Set<string>(),
    recall: (gateways: readonly Address[]) => {
      for (const each of gateways) {
        this.done.push(`recall ${each}`);
        this.health.avoided.add(each.toString());
        this.health.lost.add(each.toString());
      }
    },
  };
  /** Which pods have these addresses: others each time. */
  generation = 1;
  /** Gateways that take no new connections. */
  readonly unready = new Set<string>();
  /** Addresses that other pods of the node have now. */
  readonly strangers = new Set<string>();
  /** Marks of gateways that the kernel has as lost. */
  readonly lost = new Set<number>();
  readonly setup: EgressSetup;
  /** Of each gateway in the last plan: which ones a client may choose. */
  choices: string[] = [];

  readonly #selection: "Service" | "Direct";

  constructor(selection: "Service" | "Direct" = "Service") {
    this.#selection = selection;
    const plane: EgressPlane = {
      prepare: async () => {
        if (this.unsupported !== undefined) throw this.unsupported;
      },
      apply: async (plan, { freshMtu }) => {
        this.done.push(freshMtu === undefined ? "apply" : `apply ${freshMtu}`);
        this.choices = plan.choices.flatMap(({ all }) => all.map(String));
        return { awaitsAddress: this.awaitsAddress };
      },
      choose: async (plan) => {
        this.done.push("choose");
        this.choices = plan.choices.flatMap(({ all }) => all.map(String));
      },
      endConnections: async (gateways) => {
        this.done.push(`end connections ${gateways.join(" ")}`);
        if (this.refusal !== undefined) throw this.refusal;
        return { aborted: 0, forgotten: 0 };
      },
      clear: async () => this.done.push("clear") > 0,
      inspect: async () => this.damage,
      refused: async () => [],
      choices: async () => {
        this.done.push("choices");
        const chosen = [...this.chosen].map(Address.parse);
        return {
          chosen: new Map(
            chosen.length === 0 ? [] : [["nat/internet", chosen]],
          ),
          lost: this.lost,
        };
      },
    };
    const reports: Pick<EgressReports, "report" | "forget"> = {
      report: (_attachment, { isNew = false }) =>
        void this.done.push(isNew ? "report new" : "report"),
      forget: ({ containerId }) => void this.done.push(`forget ${containerId}`),
    };
    this.setup = new EgressSetup({
      source: {
        find: async (refs) =>
          new Map(refs.map(({ namespace, name }) => [
            `${namespace}/${name}`,
            this.#factsOf(namespace, name, this.senders),
          ])),
        read: async (refs) =>
          new Map(refs.map(({ namespace, name }) => {
            const senders = this.uncached ?? this.senders;
            const facts = this.#factsOf(namespace, name, senders);
            return [`${namespace}/${name}`, facts];
          })),
        isFollowed: (namespace) => this.followed.has(namespace),
      },
      plane,
      announcer: {
        announce: async (_attachment, targets) =>
          void this.done.push(`announce ${[...targets].length}`),
      },
      reports: reports as EgressReports,
      port: 5555,
      originatingOnly: false,
      health: this.health,
      place: { for: async () => ({ node: "n1", zone: undefined }) },
      isTaken: (address) => this.strangers.has(address.toString()),
      onEnded: () => {},
      onSwitched: () => {},
    });
  }

  #factsOf(
    namespace: string,
    name: string,
    senders: readonly string[],
  ): EgressFacts {
    const metadata = { namespace, name };
    const egress: Egress = {
      apiVersion: "coil.cybozu.com/v2",
      kind: "Egress",
      metadata,
      spec: {
        destinations: namespace === "nat"
          ? ["0.0.0.0/0", "::/0"]
          : ["192.0.2.0/24"],
        gatewaySelection: this.#selection,
      },
    };
    const slice: V1EndpointSlice = {
      metadata,
      addressType: "IPv4",
      endpoints: senders.map((each) => ({
        addresses: [each],
        conditions: { ready: !this.unready.has(each), serving: true },
        targetRef: { uid: this.#podAt(each) },
      })),
    };
    const clusterIPs = ["10.96.0.9", "fd96::9"];
    const service = { metadata, spec: { clusterIPs } };
    return { egress, service, slices: [slice] };
  }

  /** Of both families: "10.64.0.9" and "fd64::9" are of one pod. */
  #podAt(address: string): string {
    return `${this.generation}-of-${/\d+$/.exec(address)}`;
  }

  async setUp(attachment: Attachment & { freshMtu?: number } = ATTACHMENT) {
    const pod = { ...ATTACHMENT.pod, annotations: BOTH };
    const selection = await this.setup.wanted(pod, { signal });
    assert.ok(selection);
    using netns = Netns.open("/proc/self/ns/net");
    await this.setup.announce(attachment, selection, { signal });
    await this.setup.setUp(attachment, selection, { netns, signal });
  }

  async update(annotations: Readonly<Record<string, string>>) {
    return await this.setup.update(ATTACHMENT, annotations, {
      signal,
    });
  }

  /** What was done since the last time. */
  taken(): string[] {
    return this.done.splice(0);
  }
}

Deno.test("a new client is announced, made, and reported at once", async () => {
  const site = new Site();
  await site.setUp();
  assert.deepEqual(site.taken(), ["announce 4", "apply", "report new"]);
  await site.setUp({ ...ATTACHMENT, freshMtu: 1400 });
  assert.deepEqual(site.taken(), ["announce 4", "apply 1400", "report new"]);
  await assert.rejects(
    site.setUp({ ...ATTACHMENT, addresses: {} }),
    InvalidNetworkError,
  );
  assert.deepEqual(site.taken(), ["announce 4"]);
});

Deno.test("an update of a client that is as planned reports only, another one applies its plan", async () => {
  const site = new Site();
  await site.setUp();
  site.taken();
  assert.equal(await site.update(BOTH), "done");
  assert.deepEqual(site.taken(), ["report"]);
  assert.equal(await site.update(CLIENT), "done");
  assert.deepEqual(site.taken(), ["apply", "report"]);
  assert.equal(await site.update({}), "done");
  assert.deepEqual(site.taken(), ["clear", "report"]);
});

Deno.test("a client is in doubt while one of its gateways is not watched, a pod that is none only until it was looked at", async () => {
  const site = new Site();
  const { followed, setup } = site;
  assert.equal(setup.doubt(ATTACHMENT), false, "nothing is known of it");
  setup.skip(ATTACHMENT);
  assert.equal(setup.doubt(ATTACHMENT), true);
  assert.equal(setup.doubt(ATTACHMENT), false);
  await site.update({});
  assert.equal(setup.doubt(ATTACHMENT), false, "it was looked at");
  await site.setUp();
  assert.equal(setup.doubt(ATTACHMENT), false);
  followed.delete("dmz");
  assert.equal(setup.doubt(ATTACHMENT), true);
});

Deno.test("what was chosen before a start stays chosen, and only then the kernel is asked", async () => {
  const site = new Site();
  const [, second = ""] = SENDERS;
  site.chosen.add(second);
  await site.update(CLIENT);
  assert.deepEqual(site.taken(), ["choices", "apply", "report"]);
  assert.notDeepEqual(site.choices, []);
  const other = new Site();
  await other.update(CLIENT);
  assert.deepEqual(other.choices, [], "none was chosen");
});

Deno.test("what was lost before a start is recalled before anything is changed", async () => {
  const site = new Site("Direct");
  for (const each of SENDERS) site.chosen.add(each);
  const [, second = ""] = SENDERS;
  site.lost.add(gatewayMark(Address.parse(second)));
  assert.equal(await site.update(CLIENT), "done");
  assert.deepEqual(site.taken(), [
    "choices",
    `recall ${second}`,
    "apply",
    "report",
    // The start may have come before they were.
    `end connections ${second}`,
  ]);
});

Deno.test("connections through a gateway that went while coild did not run are ended before its rules go", async () => {
  for (const selection of ["Direct", "Service"] as const) {
    const site = new Site(selection);
    const [gone = "", other = ""] = SENDERS;
    site.chosen.add(gone).add(other);
    site.senders = [other];
    await site.update(CLIENT);
    assert.deepEqual(site.taken(), [
      "choices",
      `end connections ${gone}`,
      "apply",
      "report",
    ]);
    assert.deepEqual(site.choices, [other]);
  }
  const empty = new Site("Direct");
  empty.chosen.add("10.64.0.9");
  empty.senders = [];
  await empty.update(CLIENT);
  assert.deepEqual(empty.taken(), ["choices", "apply", "report"]);
});

const IPV6 = ["fd64::9", "fd64::10"];

Deno.test("while the API server has no gateway of one family a client's network and connections stay, before and after a start", async () => {
  const both = [...SENDERS, ...IPV6];
  const site = new Site("Direct");
  site.senders = both;
  await site.setUp();
  assert.equal(await site.update(BOTH), "done");
  site.taken();
  for (const senders of [SENDERS, both, IPV6, both]) {
    site.senders = senders;
    assert.equal(await site.update(BOTH), "done");
    assert.deepEqual(site.taken(), ["report"]);
  }
  const started = new Site("Direct");
  for (const each of both) started.chosen.add(each);
  const [lost = ""] = IPV6;
  started.lost.add(gatewayMark(Address.parse(lost)));
  started.senders = SENDERS;
  assert.equal(await started.update(CLIENT), "done");
  const start = ["choices", `recall ${lost}`, "apply", "report"];
  assert.deepEqual(started.taken(), [...start, `end connections ${lost}`]);
  assert.deepEqual(new Set(started.choices), new Set(both));
  // They are probed, and what is learned counts.
  const probed = started.setup.chosenFrom.flatMap(({ gateways }) => gateways);
  assert.deepEqual(new Set(probed.map(String)), new Set(both));
  const [, other = ""] = IPV6;
  started.health.avoided.add(other);
  started.health.lost.add(other);
  assert.equal(await started.update(CLIENT), "again");
  assert.deepEqual(started.taken(), ["choose"]);
  assert.equal(await started.update(CLIENT), "done");
  assert.deepEqual(started.taken(), ["report", `end connections ${other}`]);
});

Deno.test("a gateway that goes while the API server has none of one family is gone in both at once", async () => {
  const site = new Site("Direct");
  site.senders = [...SENDERS, ...IPV6];
  await site.setUp();
  assert.equal(await site.update(BOTH), "done");
  site.taken();
  const [stays = ""] = SENDERS;
  site.senders = [stays];
  assert.equal(await site.update(BOTH), "again");
  assert.equal(await site.update(BOTH), "done");
  assert.deepEqual(site.taken(), [
    "choose",
    "end connections 10.64.0.10 fd64::10",
    "apply",
    "report",
  ]);
  assert.deepEqual(new Set(site.choices), new Set([stays, "fd64::9"]));
});

Deno.test("a gateway that the cache lacks after a start, and the API server has, is waited for", async () => {
  const site = new Site("Direct");
  const [other = "", late = ""] = SENDERS;
  site.chosen.add(other).add(late);
  site.senders = [other];
  // One without gateways of the family may be in a gap.
  for (const uncached of [[other, late], []]) {
    site.uncached = uncached;
    await assert.rejects(
      site.update(CLIENT),
      (error) => error instanceof NotReadyError && error.message.includes(late),
    );
    assert.deepEqual(site.taken(), ["choices"]);
  }
  site.senders = [other, late];
  assert.equal(await site.update(CLIENT), "done");
  assert.deepEqual(site.taken(), ["choices", "apply", "report"]);
  assert.deepEqual(site.choices, [other, late]);
});

/** A client that has chosen from both gateways. */
async function chooser(): Promise<Site> {
  const site = new Site("Direct");
  await site.setUp();
  assert.equal(await site.update(BOTH), "done");
  site.taken();
  return site;
}

Deno.test("a client's new connections leave a lost gateway first, and the next update ends the others, once for each loss", async () => {
  const site = await chooser();
  const { avoided, lost } = site.health;
  const [gateway = ""] = SENDERS;
  for (const _loss of [1, 2]) {
    for (const set of [avoided, lost]) set.add(gateway);
    assert.equal(await site.update(BOTH), "again");
    assert.deepEqual(site.taken(), ["choose"]);
    assert.equal(await site.update(BOTH), "done");
    assert.deepEqual(site.taken(), ["report", `end connections ${gateway}`]);
    assert.equal(await site.update(BOTH), "done");
    assert.deepEqual(site.taken(), ["report"], "not again");
    for (const set of [avoided, lost]) set.delete(gateway);
    assert.equal(await site.update(BOTH), "again");
    assert.deepEqual(site.taken(), ["choose"]);
    assert.equal(await site.update(BOTH), "done");
    assert.deepEqual(site.taken(), ["report"]);
  }
});

Deno.test("a client's new connections leave a gateway that is gone before anything else is done", async () => {
  const site = await chooser();
  const [gone = "", other = ""] = SENDERS;
  site.senders = [other];
  assert.equal(await site.update(BOTH), "again");
  assert.deepEqual(site.taken(), ["choose"]);
  assert.equal(await site.update(BOTH), "done");
  assert.deepEqual(site.taken(), [
    `end connections ${gone}`,
    "apply",
    "report",
  ]);
  // A gateway that is new needs ways to it first.
  site.senders = SENDERS;
  assert.equal(await site.update(BOTH), "done");
  assert.deepEqual(site.taken(), ["apply", "report"]);
});

/** A client of a gateway that is gone, through which its connections could not be ended. */
async function owing(): Promise<Site> {
  const site = await chooser();
  site.senders = SENDERS.slice(1);
  site.refusal = new Error("no memory");
  assert.equal(await site.update(BOTH), "again");
  assert.equal(await site.update(BOTH), "later");
  const [gone = "", other = ""] = SENDERS;
  const steps = ["choose", `end connections ${gone}`, "apply", "report"];
  assert.deepEqual(site.taken(), steps);
  assert.deepEqual(new Set(site.choices), new Set([other]));
  return site;
}

Deno.test("connections through a gateway that is gone are ended later where they cannot be at once, and once", async () => {
  const site = await owing();
  const ending = `end connections ${SENDERS[0]}`;
  assert.equal(await site.update(BOTH), "later");
  assert.deepEqual(site.taken(), [ending, "apply", "report"]);
  site.refusal = undefined;
  assert.equal(await site.update(BOTH), "done");
  assert.deepEqual(site.taken(), [ending, "apply", "report"]);
  assert.equal(await site.update(BOTH), "done");
  assert.deepEqual(site.taken(), ["report"]);
});

Deno.test("connections through a lost gateway are ended later where they cannot be at once, unless it answers again", async () => {
  const [gateway = ""] = SENDERS;
  const ending = `end connections ${gateway}`;
  for (const isBack of [false, true]) {
    const site = await chooser();
    const { avoided, lost } = site.health;
    for (const set of [avoided, lost]) set.add(gateway);
    site.refusal = new Error("no memory");
    assert.equal(await site.update(BOTH), "again");
    assert.equal(await site.update(BOTH), "later");
    assert.deepEqual(site.taken(), ["choose", "report", ending]);
    assert.equal(await site.update(BOTH), "later");
    assert.deepEqual(site.taken(), [ending, "apply", "report"]);
    site.refusal = undefined;
    if (isBack) { for (const set of [avoided, lost]) set.delete(gateway); }
    assert.equal(await site.update(BOTH), isBack ? "again" : "done");
    assert.deepEqual(
      site.taken(),
      isBack ? ["choose"] : [ending, "apply", "report"],
    );
    assert.equal(await site.update(BOTH), "done");
    assert.deepEqual(site.taken(), ["report"]);
  }
});

Deno.test("connections through a gateway that is back are not ended for what could not be ended before", async () => {
  const site = await owing();
  site.senders = SENDERS;
  assert.equal(await site.update(BOTH), "done");
  assert.deepEqual(site.taken(), ["apply", "report"]);
  assert.equal(await site.update(BOTH), "done");
  assert.deepEqual(site.taken(), ["report"]);
});

Deno.test("a pod that is gone owes no end of its connections", async () => {
  const site = await owing();
  site.setup.forget(ATTACHMENT.key);
  await site.update(BOTH);
  assert.deepEqual(site.taken(), ["forget c1", "choices", "apply", "report"]);
});

Deno.test("a gateway whose address another pod of the node has gets no packet of a client, even if the API server shows it", async () => {
  const site = await chooser();
  const [taken = "", other = ""] = SENDERS;
  site.strangers.add(taken);
  assert.equal(await site.update(BOTH), "again");
  assert.deepEqual(site.taken(), ["choose"]);
  assert.equal(await site.update(BOTH), "done");
  assert.deepEqual(site.taken(), [
    `end connections ${taken}`,
    "apply",
    "report",
  ]);
  assert.deepEqual(new Set(site.choices), new Set([other]));
});

Deno.test("a client's connections are ended when other gateways have the addresses of those before", async () => {
  const site = await chooser();
  site.generation++;
  assert.equal(await site.update(BOTH), "done");
  const ended = `end connections ${SENDERS.join(" ")}`;
  assert.deepEqual(site.taken(), [ended, "apply", "report"]);
  assert.equal(await site.update(BOTH), "done");
  assert.deepEqual(site.taken(), ["report"]);
});

Deno.test("a client's connections are ended, too, when another gateway that has the address is not ready yet", async () => {
  const site = new Site("Direct");
  const [first = ""] = SENDERS;
  const late = "10.64.0.11";
  site.senders = [...SENDERS, late];
  site.unready.add(late);
  await site.setUp();
  assert.equal(await site.update(BOTH), "done");
  site.taken();
  site.generation++;
  site.unready.add(first).delete(late);
  assert.equal(await site.update(BOTH), "again");
  assert.deepEqual(site.taken(), ["choose"]);
  assert.equal(await site.update(BOTH), "done");
  const ended = `end connections ${site.senders.join(" ")}`;
  assert.deepEqual(site.taken(), [ended, "apply", "report"]);
  assert.equal(await site.update(BOTH), "done");
  assert.deepEqual(site.taken(), ["report"]);
});

Deno.test("damage is looked for in clients that are as planned alone, and found once", async () => {
  const site = new Site();
  site.damage = ["a rule is missing"];
  assert.deepEqual(await site.setup.findDamage(ATTACHMENT), []);
  await site.setUp();
  assert.deepEqual(await site.setup.findDamage(ATTACHMENT), site.damage);
  assert.deepEqual(await site.setup.findDamage(ATTACHMENT), []);
  site.setup.forget(ATTACHMENT.key);
  assert.equal(site.taken().at(-1), "forget c1");
});

Deno.test("where there can be no tunnels the error names the pod and its Egresses", async () => {
  const site = new Site();
  site.unsupported = new FouUnsupportedError("no tunnels here");
  await assert.rejects(
    site.setUp(),
    /pod "team\/web" a client of Egress "[a-z]+\/internet", "[a-z]+\/internet": no tunnels here/,
  );
  assert.equal(site.taken().at(-1), "clear");
});

Deno.test("a client whose address cannot be used yet is not damaged, and is finished later", async () => {
  const site = new Site();
  site.damage = ["a route is missing"];
  site.awaitsAddress = true;
  await site.setUp();
  assert.deepEqual(await site.setup.findDamage(ATTACHMENT), []);
  site.taken();
  assert.equal(await site.update(BOTH), "later");
  assert.deepEqual(site.taken(), ["apply", "report"]);
  assert.deepEqual(await site.setup.findDamage(ATTACHMENT), []);
  site.awaitsAddress = false;
  assert.equal(await site.update(BOTH), "done");
  assert.deepEqual(site.taken(), ["apply", "report"]);
  assert.deepEqual(await site.setup.findDamage(ATTACHMENT), site.damage);
});
